"""What of a cluster's metadata is secret: kdump shows none of it unless it is asked to."""

from __future__ import annotations

from dataclasses import replace

from kdump.topics.cluster_image import ClusterImage

# parts of the names of configurations that Kafka keeps as passwords, keys and certificates of keystores included
_SECRET = ("password", "secret", "jaas.config", "keystore.key", "keystore.certificate", "truststore.certificates")
HIDDEN = "[hidden]"
"""What Kafka prints instead of a password (Password.HIDDEN)."""


def is_secret(name: str) -> bool:
    """Return whether the value of a configuration of this name is secret."""
    return any(part in name.lower() for part in _SECRET)


def without_secrets(image: ClusterImage) -> ClusterImage:
    """Return a state without secrets: HIDDEN for values of configurations, no bytes for keys and salts of SCRAM."""
    configs = {
        resource: {name: HIDDEN if is_secret(name) else value for name, value in values.items()}
        for resource, values in image.configs.items()
    }
    nothing = {"salt": b"", "storedKey": b"", "serverKey": b""}
    return replace(image, configs=configs, scram={key: fields | nothing for key, fields in image.scram.items()})

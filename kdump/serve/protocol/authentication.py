"""The layouts of SaslHandshake and SaslAuthenticate.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
Version 0 of SaslHandshake, after which tokens come without requests around them, is left out.
"""

from __future__ import annotations

from kdump.formats.schemas.description import Field, Schema

SASL_HANDSHAKE_REQUEST = Schema(
    "SaslHandshakeRequest",
    "1",
    "none",
    Field("mechanism", "string"),
)

SASL_HANDSHAKE_RESPONSE = Schema(
    "SaslHandshakeResponse",
    "1",
    "none",
    Field("errorCode", "int16"),
    Field("mechanisms", "[]string"),
)

SASL_AUTHENTICATE_REQUEST = Schema(
    "SaslAuthenticateRequest",
    "0-2",
    "2+",
    Field("authBytes", "bytes"),
)

SASL_AUTHENTICATE_RESPONSE = Schema(
    "SaslAuthenticateResponse",
    "0-2",
    "2+",
    Field("errorCode", "int16"),
    Field("errorMessage", "string", nullable="0+"),
    Field("authBytes", "bytes"),
    Field("sessionLifetimeMs", "int64", "1+", ignorable=True),
)

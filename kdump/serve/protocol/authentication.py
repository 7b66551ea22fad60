"""The layouts of SaslHandshake and SaslAuthenticate.

As the message descriptions of Kafka 4.3 have them (clients/src/main/resources/common/message).
Version 0 of SaslHandshake, after which tokens come without requests around them, is left out.
"""

from __future__ import annotations

from kdump.formats.schemas.tables import messages

MESSAGES = messages("""
SaslHandshakeRequest 1 flexible none
  mechanism string

SaslHandshakeResponse 1 flexible none
  errorCode  int16
  mechanisms []string

SaslAuthenticateRequest 0-2 flexible 2+
  authBytes bytes

SaslAuthenticateResponse 0-2 flexible 2+
  errorCode         int16
  errorMessage      string    nullable 0+
  authBytes         bytes
  sessionLifetimeMs int64  1+ ignorable
""")

"""Tokens that expire: JWT with HMAC-SHA256 (RFC 7519), of which the SDK reads only when they end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import Any


class Mint:
    """Makes tokens and knows its own again."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self.generation = 0
        """Tokens of an earlier generation are revoked, however long they were to live."""

    def make(self, subject: str, seconds: float) -> str:
        """A token for one subject that ends after so many seconds."""
        claims = {"sub": subject, "exp": time.time() + seconds, "gen": self.generation, "jti": secrets.token_hex(8)}
        body = f"{_text({'alg': 'HS256', 'typ': 'JWT'})}.{_text(claims)}"
        return f"{body}.{self._signature(body)}"

    def accepts(self, token: str, subject: str) -> bool:
        """Whether it made this token for this subject, and it has neither ended nor been revoked."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return False
        text = body.partition(".")[2]
        claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        alive = claims["exp"] > time.time() and claims["gen"] == self.generation
        return bool(alive and claims["sub"] == subject)

    def _signature(self, body: str) -> str:
        return _base64(hmac.digest(self._secret, body.encode(), hashlib.sha256))


def _text(claims: dict[str, Any]) -> str:
    return _base64(json.dumps(claims).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

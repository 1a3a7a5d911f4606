"""Who is signed in: a signed cookie that says which key opened the session and until when, and a token for each form.

The cookie holds no secret of the caller. The key is looked up anew at every visit, so that a revoked key ends its sessions
at once. The signing secret is this process's own and is kept nowhere: a restart ends every session.
"""

import base64
import hashlib
import hmac
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import msgspec

from standfast.clock import Clock, IdSource, fresh_secret
from standfast.limits import CONSOLE_SESSION_SECONDS, MAX_ENDED_SESSIONS

NOBODY: Final = ""
_MAX_COOKIE_CHARS: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session; its ``key_id`` is empty until somebody has signed in."""

    session_id: str
    key_id: str
    ends_at: int

    @property
    def is_signed_in(self) -> bool:
        """Whether somebody has."""
        return self.key_id != NOBODY


class Sessions:
    """Gives sessions out and knows them again. Safe to share between threads."""

    def __init__(self, *, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._secret = fresh_secret().encode()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key_id: str = NOBODY) -> Session:
        """A new session, under an id that nobody has seen: what was known before signing in is worth nothing after it."""
        ends_at = int(self._clock.now().timestamp()) + CONSOLE_SESSION_SECONDS
        return Session(session_id=self._ids.new_id(), key_id=key_id, ends_at=ends_at)

    def end(self, session: Session) -> None:
        """Sign out: the cookie is worth nothing from now on, whoever kept a copy."""
        with self._lock:
            self._ended[session.session_id] = None
            if len(self._ended) > MAX_ENDED_SESSIONS:
                self._ended.popitem(last=False)

    def cookie_of(self, session: Session) -> str:
        """The session as a cookie's value."""
        told = msgspec.json.encode([session.session_id, session.key_id, session.ends_at])
        body = base64.urlsafe_b64encode(told).rstrip(b"=").decode()
        return f"{body}.{self._mac('session', body)}"

    def read(self, cookie: str | None) -> Session | None:
        """The session that a cookie holds; None if it is none of ours, or over."""
        body, dot, mac = (cookie or "").partition(".")
        if not dot or len(body) > _MAX_COOKIE_CHARS or not body.isascii() or not mac.isascii():
            return None
        if not hmac.compare_digest(mac, self._mac("session", body)):
            return None
        padded = body.encode() + b"=" * (-len(body) % 4)
        told = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=tuple[str, str, int])
        session = Session(session_id=told[0], key_id=told[1], ends_at=told[2])
        with self._lock:
            is_over = session.session_id in self._ended or self._clock.now().timestamp() >= session.ends_at
        return None if is_over else session

    def form_token(self, session: Session) -> str:
        """What every form of this session carries; a page of another site can't know it."""
        return self._mac("form", session.session_id)

    def is_own_form(self, session: Session, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return token.isascii() and hmac.compare_digest(token, self.form_token(session))

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()

"""Sessions of people who look: a key is sent once, and a cookie stands for it while they stay.

The cookie is random, kept here as its hash, bound to the key, and gone when the key is: the key is looked up anew at each
request. It is for this site alone and out of scripts' reach; what changes anything also has to bring the session's
token from the page itself, so that no other page can make a browser do it.
"""

import hashlib
import hmac
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from holdfast.access.table import Caller
from holdfast.clock import fresh_secret
from holdfast.errors import Forbidden, Unauthenticated
from holdfast.limits import MAX_SESSIONS, SESSION_IDLE_SECONDS, SESSION_SECONDS
from holdfast.verbs.hall import Hall

COOKIE: Final = "holdfast_session"


@dataclass(slots=True)
class Session:
    """Somebody who is looking. ``form_token`` goes into every form of theirs, and must come back with it."""

    key_id: str
    form_token: str
    began_at: float
    used_at: float


class Sessions:
    """The sessions of one server; they end with it. Safe to share between threads."""

    def __init__(self, hall: Hall, *, path: str, is_secure: bool) -> None:
        self._hall = hall
        self._attributes = f"Path={path}; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        self._held: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, token: str | None, *, peer: str) -> tuple[Session, str]:
        """A session for the holder of an API key, and the ``Set-Cookie`` header that begins it."""
        caller = self._hall.caller_of(token, peer=peer)
        cookie, now = fresh_secret(), self._hall.clock.monotonic()
        session = Session(caller.key_id, fresh_secret(), now, now)
        with self._lock:
            self._held[_hashed(cookie)] = session
            while len(self._held) > MAX_SESSIONS:
                self._held.popitem(last=False)
        return session, f"{COOKIE}={cookie}; Max-Age={int(SESSION_SECONDS)}; {self._attributes}"

    def find(self, cookie: str | None) -> tuple[Session, Caller]:
        """Whose session a cookie is; ``Unauthenticated`` if it is nobody's, or over, or its key is not valid any more."""
        name, now = _hashed(cookie or ""), self._hall.clock.monotonic()
        with self._lock:
            session = self._held.get(name)
            if session is None:
                raise Unauthenticated(problem="there is no such session; sign in")
            if now - session.began_at > SESSION_SECONDS or now - session.used_at > SESSION_IDLE_SECONDS:
                del self._held[name]
                raise Unauthenticated(problem="the session is over; sign in again")
            session.used_at = now
            self._held.move_to_end(name)
        return session, self._hall.keyring.caller_with(session.key_id)

    def require_form(self, session: Session, form_token: str | None, caller: Caller, act: str) -> None:
        """Raise ``Forbidden`` if a form does not bring the session's token: another page may have sent it."""
        if not hmac.compare_digest((form_token or "").encode(), session.form_token.encode()):
            problem = "the form is not one of this session's; load the page again"
            raise Forbidden(role=caller.role.value, act=act, where="the console", problem=problem)

    def close(self, cookie: str | None) -> str:
        """End a session; gives the ``Set-Cookie`` header that takes the cookie away."""
        with self._lock:
            self._held.pop(_hashed(cookie or ""), None)
        return f"{COOKIE}=; Max-Age=0; {self._attributes}"


def _hashed(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()

"""The failures an API server answers with (FAC-021), as one exception with code, reason and message."""

from kubelet_emu.errors import PeerError

__all__ = ["ApiError", "already_exists", "conflict", "expired", "invalid", "not_found", "uid_conflict"]


class ApiError(PeerError):
    """Raised by store and client; ``code`` is the HTTP code, ``reason`` the StatusReason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(message)


def not_found(resource: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource} "{name}" not found')


def already_exists(resource: str, name: str, *, deleting: bool = False) -> ApiError:
    prefix = "object is being deleted: " if deleting else ""
    return ApiError(409, "AlreadyExists", f'{prefix}{resource} "{name}" already exists')


def conflict(resource: str, name: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )


def uid_conflict(kind: str, name: str, wanted: str, found: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind} "{name}": the UID in the precondition ({wanted}) does not '
        f"match the UID in record ({found}). The object might have been deleted and then recreated",
    )


def invalid(kind: str, name: str, text: str) -> ApiError:
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {text}')


def expired(resource_version: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {resource_version}")

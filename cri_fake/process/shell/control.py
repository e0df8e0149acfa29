"""How control leaves a command early (pure)."""

__all__ = ["BreakLoop", "ContinueLoop", "ReturnFrom", "ShellExit"]


class ShellExit(Exception):
    """The shell ends. ``replaced``: it became another program, so its EXIT trap is gone."""

    def __init__(self, status: int, *, replaced: bool = False) -> None:
        super().__init__(status)
        self.status = status
        self.replaced = replaced


class BreakLoop(Exception):
    """``break n``."""

    def __init__(self, levels: int) -> None:
        super().__init__(levels)
        self.levels = levels
        self.status = 0


class ContinueLoop(BreakLoop):
    """``continue n``."""


class ReturnFrom(Exception):
    """``return n`` from a function or a sourced file."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status

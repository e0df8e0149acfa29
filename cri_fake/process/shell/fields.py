"""Field splitting: from expanded pieces of a word to fields (pure)."""

from cri_fake.process.shell.pattern import escape

__all__ = ["Fields", "Piece", "piece_pattern", "piece_text"]

Piece = tuple[str, bool]
"""Text and whether it was quoted."""


class Fields:
    """Collects the pieces of one word and splits what has to be split (POSIX 2.6.5)."""

    def __init__(self, ifs: str) -> None:
        self.done: list[list[Piece]] = []
        self._current: list[Piece] | None = None
        self._blanks = "".join(char for char in ifs if char in " \t\n")
        self._marks = "".join(char for char in ifs if char not in " \t\n")
        self._after_blank = False

    def text(self, text: str, *, quoted: bool) -> None:
        """Text that is never split; quoted text makes a field even if it is empty."""
        if text or quoted:
            if self._current is None:
                self._current = []
            self._current.append((text, quoted))
            self._after_blank = False

    def split(self, text: str) -> None:
        """The result of an unquoted expansion."""
        if not self._blanks and not self._marks:
            self.text(text, quoted=False)
            return
        start = 0
        for at, char in enumerate(text):
            if char in self._blanks or char in self._marks:
                if at > start:
                    self.text(text[start:at], quoted=False)
                start = at + 1
                self._separator(blank=char in self._blanks)
        if start < len(text):
            self.text(text[start:], quoted=False)

    def _separator(self, *, blank: bool) -> None:
        if blank:
            if self._current is not None:
                self._finish()
                self._after_blank = True
            return
        if self._after_blank:
            self._after_blank = False
            return
        if self._current is None:
            self._current = []
        self._finish()

    def end_field(self) -> None:
        """The border between two positional parameters."""
        if self._current is not None:
            self._finish()
        self._after_blank = False

    def _finish(self) -> None:
        if self._current is not None:
            self.done.append(self._current)
        self._current = None

    def result(self) -> list[list[Piece]]:
        self._finish()
        return self.done


def piece_text(pieces: list[Piece]) -> str:
    return pieces[0][0] if len(pieces) == 1 else "".join(text for text, _ in pieces)


def piece_pattern(pieces: list[Piece]) -> str:
    """The pieces as a pattern: quoted text stands for itself."""
    return "".join(escape(text) if quoted else text.replace("\\", "\\\\") for text, quoted in pieces)

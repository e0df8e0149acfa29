"""The reason of a decision: which rule fired, and for what.

Every pure function that decides returns *what* is to be done and *why*. The why is a tuple of these values,
in the order in which the rules were applied; the trace writes it down and explanations read it back.
"""

from attrs import frozen

__all__ = ["Why"]


@frozen
class Why:
    """One rule that fired: its id in the specification (``RST-045``) and the subject it was applied to.

    ``about`` names a container, a sandbox or a condition; it is empty when the rule concerns the whole pod.
    """

    rule: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.rule}({self.about})" if self.about else self.rule

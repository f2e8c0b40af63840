"""What a comparison says of an effect. These words are stored, and are used in the database's YAML."""

from __future__ import annotations

from typing import Final

EQUAL: Final = "equal"
# Only the reference has it; only the other feed has it.
MISSING: Final = "missing"
EXTRA: Final = "extra"
DIFFERS: Final = "differs"
# Both have it, but not at the same place.
ORDER: Final = "order"
# The same value in another text.
REPRESENTATION: Final = "representation"
# A difference that the tools' own rules explain, of one of the classes below.
EXPECTED: Final = "expected"
VERDICTS: Final = (EQUAL, MISSING, EXTRA, DIFFERS, ORDER, REPRESENTATION, EXPECTED)
FAULTS: Final = (MISSING, EXTRA, DIFFERS, ORDER)
AGREEING: Final = (EQUAL, EXPECTED, REPRESENTATION)

# One feed did not send a cell or an image that the other has.
NOT_CAPTURED: Final = "not_captured"
NO_OP_UPDATE: Final = "no_op_update"
# One update in one feed, delete and insert in the other.
SPLIT_UPDATE: Final = "update_as_delete_and_insert"
# Both feeds have it, and their positions cannot be compared.
ORDER_UNKNOWN: Final = "order_unknown"
# Both feeds have it, with commit times that no rounding explains.
COMMIT_TIME: Final = "commit_time"
CLASSES: Final = (NOT_CAPTURED, NO_OP_UPDATE, SPLIT_UPDATE, ORDER_UNKNOWN, COMMIT_TIME)

# Of a column: it is published in forms that cannot be compared, or not at all.
NOT_COMPARED: Final = "not_compared"

# Stands for a column in a difference of operations.
OPERATION: Final = "(operation)"

"""TODO builds."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    pass

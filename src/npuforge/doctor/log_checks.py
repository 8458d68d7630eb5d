"""The checks that logs, reports and register dumps decide."""

from npuforge.doctor import (
    checks_board_log,
    checks_driver,
    checks_fault,
    checks_signatures,
    checks_tool_log,
    versions,
)

LOG_CHECKS = (
    checks_signatures.CHECK,
    checks_tool_log.CHECK,
    checks_board_log.CHECK,
    checks_fault.CHECK,
    checks_driver.CHECK,
    versions.CHECK,
)

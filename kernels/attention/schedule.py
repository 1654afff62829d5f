"""When the tiles of k and v are fetched, read and overwritten; plain integers, so that a test can prove it.

Time is counted in barriers.  A group of waves is in QK(j) in the interval 2j + late and in PV(j) in the next one, where
late is 0 for the first group and 1 for the second, which passes one more barrier in the beginning.

    QK(j)   fetch v(j + V_AHEAD)   s(j + 1) = q k(j + 1); at its end the first operands of v(j) are read
    PV(j)   fetch k(j + K_AHEAD)   acc += p(j) v(j); at its end the first operands of k(j + 2) are read

A barrier waits for all fetches of a wave but those of the last two phases.  All tiles have BUFFERS places in LDS.
"""

BUFFERS, K_AHEAD, V_AHEAD, IN_FLIGHT = 4, 4, 2, 2  # BUFFERS is a power of two


def qk(j, late):
    return 2 * j + late


def pv(j, late):
    return 2 * j + 1 + late


def k_fetched(x, late):
    return pv(x - K_AHEAD, late)


def v_fetched(x, late):
    return qk(x - V_AHEAD, late)


def landed(fetched):
    """The interval at whose end a fetch is there for all waves."""
    return fetched + IN_FLIGHT


def k_read(x, late):
    """First and last interval in which k(x) is read."""
    return pv(x - 2, late), qk(x - 1, late)


def v_read(x, late):
    return qk(x, late), pv(x, late)

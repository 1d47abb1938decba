from __future__ import annotations

import os
import resource
import threading

import pytest

from tests.loader.processes import open_files
from vidload.loader.channel import Channel
from vidload.loader.memory import MemoryFile


def pair() -> tuple[Channel, Channel]:
    here, there = Channel.pair()
    return here, Channel(there)


def test_messages_arrive_in_order() -> None:
    here, there = pair()
    for number in range(100):
        here.send(("message", number))
    assert [there.receive() for _ in range(100)] == [(("message", number), []) for number in range(100)]


def test_a_message_larger_than_the_socket_holds() -> None:
    here, there = pair()
    message = os.urandom(10_000_000)
    thread = threading.Thread(target=here.send, args=(message,))
    thread.start()
    assert there.receive()[0] == message
    thread.join()


def test_files_come_with_their_message() -> None:
    here, there = pair()
    files = [MemoryFile.make("test", size) for size in (1, 2, 3)]
    here.send("none")
    here.send("two", files[:2])
    here.send("one", files[2:])
    sizes = {}
    for _ in range(3):
        message, received = there.receive()
        sizes[message] = [os.fstat(file.fileno()).st_size for file in received]
        assert not any(os.get_inheritable(file.fileno()) for file in received)
    assert sizes == {"none": [], "two": [1, 2], "one": [3]}


def test_files_are_closed_with_what_was_received() -> None:
    here, there = pair()
    file = MemoryFile.make("test", 1)
    before = open_files()
    here.send("message", [file])
    received = there.receive()
    assert len(open_files()) == len(before) + 1
    del received
    assert open_files() == before


def test_the_end_of_the_other_side_is_told() -> None:
    here, there = pair()
    there.close()
    with pytest.raises(EOFError):
        here.receive()
    with pytest.raises(ConnectionError):
        here.send("message")


def test_an_end_in_the_middle_of_a_message_is_told() -> None:
    here, there = Channel.pair()
    there.send(b"\x10")
    there.close()
    with pytest.raises(EOFError):
        here.receive()


def test_closing_is_seen_though_a_forked_process_has_the_socket_too() -> None:
    here, there = pair()
    copy = os.dup(here.fileno())  # what a fork leaves
    here.close()
    with pytest.raises(EOFError):
        there.receive()
    os.close(copy)


def test_no_descriptor_left_for_a_file_is_an_error_that_says_so() -> None:
    here, there = pair()
    here.send("message", [MemoryFile.make("test", 1)])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        with pytest.raises(OSError, match=r"Too many open files.*ulimit -n"):
            there.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

from __future__ import annotations

import os
import resource
import socket
import threading

import pytest

from tests.loader.processes import open_files
from vidload.loader.channel import Channel, Message, pack
from vidload.loader.memory import MemoryFile


def pair() -> tuple[Channel, Channel]:
    """A loader's end and a worker's."""
    here, there = Channel.pair()
    return here, Channel(there, blocking=True)


def receive(channel: Channel, count: int = 1) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        messages += channel.receive()
    return messages


def test_messages_arrive_in_order() -> None:
    here, there = pair()
    for number in range(100):
        assert here.send(("message", number))
    assert receive(there, 100) == [(("message", number), []) for number in range(100)]
    for number in range(100):
        there.send(number)
    assert receive(here, 100) == [(number, []) for number in range(100)]


@pytest.mark.parametrize("size", [0, 16_383, 16_384, 70_000, 10_000_000])
def test_a_worker_sends_messages_of_any_size(size: int) -> None:
    here, there = pair()
    message = os.urandom(size)
    thread = threading.Thread(target=there.send, args=(message,))
    thread.start()
    assert receive(here)[0][0] == message
    thread.join()


def test_a_loader_does_not_wait_for_a_worker_to_read() -> None:
    here, there = pair()
    messages = [os.urandom(size) for size in (10, 3_000_000, 10, 100_000)]
    assert [here.send(message) for message in messages] == [True, False, False, False]
    received: list[Message] = []
    while len(received) < 4:
        here.flush()
        received += there.receive()
    assert [message for message, _ in received] == messages
    assert here.flush()


def test_a_loader_does_not_wait_for_the_rest_of_a_message() -> None:
    here, there = Channel.pair()
    assert here.receive() == []
    data = pack("message")
    header = len(data).to_bytes(8, "little") + b"\0"
    for byte in header + data[:-1]:
        there.send(bytes([byte]))
        assert here.receive() == []
    there.send(data[-1:] + header + data)
    assert here.receive() == [("message", [])] * 2


def test_files_come_with_their_message() -> None:
    here, there = pair()
    files = [MemoryFile.make("test", size) for size in (1, 2, 3)]
    ballast = bytes(100_000)
    messages = [("none", []), ("two", files[:2]), (ballast, []), (ballast + b"3", files[2:]), ("last", files[:1])]
    for message, some in messages:
        here.send(message, some)
    received: list[Message] = []
    while len(received) < len(messages):
        here.flush()
        received += there.receive()
    assert [message for message, _ in received] == [message for message, _ in messages]
    sizes = [[os.fstat(file.fileno()).st_size for file in some] for _, some in received]
    assert sizes == [[], [1, 2], [], [3], [1]]
    assert not any(os.get_inheritable(file.fileno()) for _, some in received for file in some)


def test_files_are_closed_with_what_was_received() -> None:
    here, there = pair()
    file = MemoryFile.make("test", 1)
    before = open_files()
    here.send("message", [file])
    received = receive(there)
    assert len(open_files()) == len(before) + 1
    del received
    assert open_files() == before


def test_a_file_that_is_not_sent_yet_stays_open() -> None:
    here, there = pair()
    here.send(bytes(1_000_000))
    here.send("message", [MemoryFile.make("test", 77)])  # nobody else has it
    received: list[Message] = []
    while len(received) < 2:
        here.flush()
        received += there.receive()
    assert os.fstat(received[1][1][0].fileno()).st_size == 77


def test_the_end_of_the_other_side_is_told() -> None:
    for one, other in (pair(), reversed(pair())):
        other.close()
        with pytest.raises(EOFError):
            one.receive()
        with pytest.raises(ConnectionError):
            one.send("message")


def test_what_was_sent_before_the_end_still_arrives() -> None:
    here, there = pair()
    there.send("last words")
    there.close()
    assert receive(here) == [("last words", [])]
    with pytest.raises(EOFError):
        here.receive()


def test_an_end_in_the_middle_of_a_message_is_told() -> None:
    here, there = Channel.pair()
    there.send(b"\x10")
    there.close()
    assert here.receive() == []
    with pytest.raises(EOFError):
        here.receive()


def test_closing_is_seen_though_a_forked_process_has_the_socket_too() -> None:
    here, there = pair()
    copy = socket.socket(fileno=os.dup(here.fileno()))  # what a fork leaves
    here.close()
    with pytest.raises(EOFError):
        there.receive()
    copy.close()


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

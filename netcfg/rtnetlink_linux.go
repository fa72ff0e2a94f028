package netcfg

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mdlayher/ethtool"
	"golang.org/x/sys/unix"
)

// This file is the socket of rtnetlink (include/uapi/linux/rtnetlink.h). The
// messages are made by hand: the usual libraries have no IFA_PROTO, encode vlan
// flags wrongly and send attributes that were not asked for. So is the socket:
// mdlayher/netlink starts a goroutine for each request, which on a thread that
// is locked to a namespace took half of the time of an operation, and hides the
// flags of a list's last message.

// requestTimeout bounds one request. The kernel answers as soon as it has the
// RTNL lock, which a driver may hold for seconds while it resets a NIC.
const requestTimeout = 20 * time.Second

// dumpTries bounds the dumps that a change interrupted (NLM_F_DUMP_INTR). Each
// try takes milliseconds; 50 ride out a storm of DAD and carrier changes.
const dumpTries = 50

// receiveBuffer holds the longest message of a dump: the kernel makes them as
// long as the buffer, up to 32 KiB (netlink_recvmsg, net/netlink/af_netlink.c).
const receiveBuffer = 64 << 10

var (
	errInterrupted = errors.New("the kernel's list kept changing while it was read")
	errTruncated   = errors.New("the kernel's message is longer than 64 KiB")
	errNoAnswer    = fmt.Errorf("the kernel did not answer within %s", requestTimeout)
)

// rtnl is a netlink socket in the network namespace of the thread that made it.
// It blocks: the kernel has done a request, and answered, when sending returns.
type rtnl struct {
	fd      int
	seq     uint32
	out     []byte // the last request
	in      []byte
	ethtool *ethtool.Client // nil in a kernel without it
}

func dialRTNL() (*rtnl, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	r := &rtnl{fd: fd, in: make([]byte, receiveBuffer)}
	if err := r.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("set netlink option: %w", err), unix.Close(fd))
	}
	r.ethtool, err = ethtool.New()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("open ethtool socket: %w", err), unix.Close(fd))
	}
	return r, nil
}

func (r *rtnl) prepare() error {
	for _, option := range []int{
		unix.NETLINK_EXT_ACK,        // explanations in refusals
		unix.NETLINK_CAP_ACK,        // which do not repeat the request
		unix.NETLINK_GET_STRICT_CHK, // dumps that do not ignore their filter
	} {
		if err := unix.SetsockoptInt(r.fd, unix.SOL_NETLINK, option, 1); err != nil {
			return err
		}
	}
	timeout := unix.NsecToTimeval(requestTimeout.Nanoseconds())
	return errors.Join(
		unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.Bind(r.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

func (r *rtnl) close() error {
	err := unix.Close(r.fd)
	if r.ethtool != nil {
		err = errors.Join(err, r.ethtool.Close())
	}
	return err
}

// dump calls decode for each message of a list. interrupted says that the list
// changed meanwhile, and that what was decoded is of no use. A message that
// cannot be decoded ends nothing: the kernel begins no list before the last one
// was read to its end (EBUSY).
func (r *rtnl) dump(ctx context.Context, typ uint16, data []byte, decode func([]byte) error) (interrupted bool, err error) {
	if err := r.send(ctx, typ, unix.NLM_F_DUMP, data, none); err != nil {
		return false, err
	}
	var bad error
	for {
		done, err := r.receive(func(m message) {
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			if m.typ != unix.NLMSG_DONE && bad == nil {
				bad = decode(m.data)
			}
		})
		if done || err != nil {
			return interrupted, cmp.Or(err, bad)
		}
	}
}

// write sends one request that changes something. The error is the kernel's
// errno, with its explanation for people when it gives one.
func (r *rtnl) write(ctx context.Context, typ uint16, flags uint16, header []byte, encode func(*attrs)) error {
	if err := r.send(ctx, typ, flags|unix.NLM_F_ACK, header, encode); err != nil {
		return err
	}
	for {
		if done, err := r.receive(func(message) {}); done || err != nil {
			return err
		}
	}
}

func none(*attrs) {}

// send makes the request and sends it.
func (r *rtnl) send(ctx context.Context, typ, flags uint16, header []byte, encode func(*attrs)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.seq++
	// struct nlmsghdr: length, type, flags, sequence number, port 0: the kernel.
	b := append(r.out[:0], 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, r.seq)
	b = append(b, 0, 0, 0, 0)
	a := attrs{b: append(b, header...)}
	encode(&a)
	if a.err != nil {
		return a.err
	}
	r.out = a.b
	binary.NativeEndian.PutUint32(r.out, uint32(len(r.out)))
	for {
		err := unix.Sendto(r.fd, r.out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive calls each for every message of the next datagram that answers the
// last request, and reports whether the answer ends with it.
func (r *rtnl) receive(each func(message)) (done bool, err error) {
	b, err := r.datagram()
	if err != nil {
		return false, err
	}
	return answer(b, r.seq, each)
}

func (r *rtnl) datagram() ([]byte, error) {
	for {
		n, _, flags, from, err := unix.Recvmsg(r.fd, r.in, nil, 0)
		switch sender, _ := from.(*unix.SockaddrNetlink); {
		case errors.Is(err, unix.EINTR): // of the runtime's own signals
		case errors.Is(err, unix.EAGAIN):
			return nil, errNoAnswer
		case err != nil:
			return nil, err
		case flags&unix.MSG_TRUNC != 0:
			return nil, errTruncated
		case sender != nil && sender.Pid == 0: // from nobody but the kernel
			return r.in[:n], nil
		}
	}
}

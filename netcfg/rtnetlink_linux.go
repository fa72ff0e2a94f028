package netcfg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/mdlayher/ethtool"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// This file is the socket and the headers of rtnetlink (include/uapi/linux/
// rtnetlink.h). The messages are built by hand on mdlayher/netlink: the usual
// rtnetlink libraries have no IFA_PROTO, encode vlan flags wrongly and send
// attributes that were not asked for.

// requestTimeout bounds one request. The kernel answers as soon as it has the
// RTNL lock, which a driver may hold for seconds while it resets a NIC.
const requestTimeout = 20 * time.Second

// dumpTries bounds the dumps that a change interrupted (NLM_F_DUMP_INTR). Each
// try takes milliseconds; 50 ride out a storm of DAD and carrier changes.
const dumpTries = 50

// receiveBuffer holds the longest message of a dump: the kernel makes them as
// long as the buffer, up to 32 KiB (netlink_recvmsg, net/netlink/af_netlink.c).
const receiveBuffer = 64 << 10

var errInterrupted = errors.New("the kernel's list kept changing while it was read")

// rtnl is a netlink socket in the network namespace of the thread that made it.
type rtnl struct {
	conn    *netlink.Conn
	ethtool *ethtool.Client // nil: the kernel has none (before Linux 5.6)
}

func dialRTNL() (*rtnl, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{MessageBufferSize: receiveBuffer})
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// Explanations in refusals, and dumps that do not ignore their filter.
	for _, o := range []netlink.ConnOption{netlink.ExtendedAcknowledge, netlink.GetStrictCheck} {
		if err := conn.SetOption(o, true); err != nil {
			conn.Close()
			return nil, fmt.Errorf("set netlink option: %w", err)
		}
	}
	eth, err := ethtool.New()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		conn.Close()
		return nil, fmt.Errorf("open ethtool socket: %w", err)
	}
	return &rtnl{conn, eth}, nil
}

func (r *rtnl) close() error {
	err := r.conn.Close()
	if r.ethtool != nil {
		err = errors.Join(err, r.ethtool.Close())
	}
	return err
}

func (r *rtnl) execute(ctx context.Context, typ netlink.HeaderType, flags netlink.HeaderFlags, data []byte) ([]netlink.Message, error) {
	deadline := time.Now().Add(requestTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	return r.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: typ, Flags: netlink.Request | flags},
		Data:   data,
	})
}

// dump reads a whole list, again when a change interrupted it: never half.
func (r *rtnl) dump(ctx context.Context, typ netlink.HeaderType, data []byte) ([]netlink.Message, error) {
	for range dumpTries {
		msgs, err := r.execute(ctx, typ, netlink.Dump, data)
		if err != nil {
			return nil, err
		}
		if !interrupted(msgs) {
			return msgs, nil
		}
	}
	return nil, errInterrupted
}

func interrupted(msgs []netlink.Message) bool {
	for _, m := range msgs {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return true
		}
	}
	return false
}

// write sends one request that changes something. The error is the kernel's
// errno, with its explanation for people when it gives one.
func (r *rtnl) write(ctx context.Context, typ netlink.HeaderType, flags netlink.HeaderFlags, header []byte, encode func(*netlink.AttributeEncoder)) error {
	ae := netlink.NewAttributeEncoder()
	encode(ae)
	attrs, err := ae.Encode()
	if err != nil {
		return err
	}
	_, err = r.execute(ctx, typ, flags|netlink.Acknowledge, append(header, attrs...))
	return plainError(err)
}

// plainError drops the library's framing from a refusal.
func plainError(err error) error {
	var op *netlink.OpError
	if !errors.As(err, &op) {
		return err
	}
	if op.Message != "" {
		return fmt.Errorf("%w (%s)", op.Err, op.Message)
	}
	return op.Err
}

// ifInfo is struct ifinfomsg: 16 bytes.
func ifInfo(index int, flags, change uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], change)
	return b
}

// ifAddr is struct ifaddrmsg: 8 bytes.
func ifAddr(p netip.Prefix, index int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = family(p.Addr()), byte(p.Bits())
	if p.Addr().IsLinkLocalUnicast() {
		b[3] = scopeLink
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

// rtMsg is struct rtmsg: 12 bytes.
func rtMsg(r Route, proto int) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = family(r.To.Addr()), byte(r.To.Bits())
	b[4] = unix.RT_TABLE_UNSPEC // RTA_TABLE has it
	b[5], b[6], b[7] = byte(proto), byte(r.Scope), byte(slices.Index(routeWords, r.Type))
	if r.OnLink {
		binary.NativeEndian.PutUint32(b[8:], unix.RTNH_F_ONLINK)
	}
	return b
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func macString(b []byte) string {
	if len(b) != 6 {
		return ""
	}
	return net.HardwareAddr(b).String()
}

package netcfg

import (
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// watchGroups is the kernel's multicast groups of links, addresses, routes, rules
// and router advertisements' options as a bit mask (RTMGRP_* and RTNLGRP_*,
// include/uapi/linux/rtnetlink.h).
const watchGroups = 1<<(unix.RTNLGRP_ND_USEROPT-1) | 1<<(unix.RTNLGRP_IPV4_RULE-1) | 1<<(unix.RTNLGRP_IPV6_RULE-1) | unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR |
	unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE

// watchBuffer holds some 5,000 events, a full restart of 1,000 vlans. More are
// lost, which the kernel says (ENOBUFS) and which costs no more than one read
// of everything.
const watchBuffer = 4 << 20

type kernelEvents struct {
	conn *netlink.Conn
	c    chan struct{}
	ra   *advertisements
}

// watchKernel subscribes in the network namespace of the calling thread. What
// router advertisements have for user space is learned into ra.
func watchKernel(ra *advertisements) (*kernelEvents, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: watchGroups})
	if err != nil {
		return nil, fmt.Errorf("subscribe to network events: %w", err)
	}
	if err := conn.SetReadBuffer(watchBuffer); err != nil {
		conn.Close()
		return nil, fmt.Errorf("set buffer for network events: %w", err)
	}
	e := &kernelEvents{conn: conn, c: make(chan struct{}, 1), ra: ra}
	go e.receive()
	return e, nil
}

// receive ends when the socket is closed or breaks; the closed channel says so.
func (e *kernelEvents) receive() {
	defer close(e.c)
	for {
		msgs, err := e.conn.Receive()
		for _, m := range msgs {
			if m.Header.Type != unix.RTM_NEWNDUSEROPT {
				continue
			}
			if a, err := parseUserOption(m.Data); err == nil {
				e.ra.learn(a, time.Now())
			}
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		select {
		case e.c <- struct{}{}:
		default: // one is waiting already
		}
	}
}

func (e *kernelEvents) C() <-chan struct{} { return e.c }

func (e *kernelEvents) Close() error { return e.conn.Close() }

package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	// stagger is the head start a connection attempt has over the next
	// (RFC 8305, section 5, recommends 250 ms): long enough for a LAN not to
	// open connections in vain, short enough for a dead endpoint not to matter.
	stagger = 250 * time.Millisecond
	// dialTimeout bounds TCP connect and TLS handshake of one address: three
	// SYN (1 + 2 + 4 s) and a handshake on a slow machine. Others are being
	// tried meanwhile.
	dialTimeout = 10 * time.Second
	// lookupTimeout is two tries of the resolver at two servers (5 s each is
	// its default), cut short since other endpoints may not need it.
	lookupTimeout = 10 * time.Second
	// maxEndpoints bounds one attempt (16 s of stagger); the order is random,
	// so others have their turn in the next.
	maxEndpoints = 64
	// maxAddresses bounds what one DNS name can add.
	maxAddresses = 16
)

// target is one address to dial for an endpoint. A DNS name has several.
type target struct {
	endpoint string
	addr     netip.AddrPort
}

// hunt is one attempt's way through the endpoints. It dials them in order, a
// stagger apart and families alternating, and gives out the connections that
// pass TLS one after the other, until all have been tried.
type hunt struct {
	network Network
	tls     *tls.Config
	total   int      // endpoints
	names   []string // endpoints whose host is still to be looked up
	queue   []target // addresses still to be dialled
	last    target   // the one dialled last
	failed  []*Failure
}

func newHunt(network Network, conf *tls.Config, endpoints []string) *hunt {
	h := &hunt{network: network, tls: conf, total: len(endpoints)}
	for _, e := range endpoints {
		if addr, err := netip.ParseAddrPort(e); err == nil {
			h.queue = append(h.queue, target{e, addr})
		} else {
			h.names = append(h.names, e)
		}
	}
	return h
}

// result is what a lookup (no conn, found set) or a dial ended with.
type result struct {
	target
	step  Step
	found []netip.Addr
	conn  *tls.Conn
	err   error
}

// next returns the next connection that passed TLS, or nil when nothing is
// left to try or ctx has ended. What it started has ended when it returns; what
// was cut short because another won is tried again by the next call.
func (h *hunt) next(ctx context.Context) (*tls.Conn, target) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	running := 0
	run := func(f func() result) {
		running++
		go func() { results <- f() }()
	}
	for _, name := range h.names {
		run(func() result { return h.lookup(ctx, name) })
	}
	h.names = nil

	var won result
	headStart := time.NewTimer(0) // when the next may be dialled
	defer headStart.Stop()
	ready := false
	for {
		if ready && len(h.queue) > 0 && ctx.Err() == nil {
			t := h.pick()
			run(func() result { return h.dial(ctx, t) })
			ready = false
			headStart.Reset(stagger)
		}
		if running == 0 && (len(h.queue) == 0 || ctx.Err() != nil) {
			return won.conn, won.target
		}
		select {
		case <-headStart.C:
			ready = true
		case r := <-results:
			running--
			if r.conn != nil && won.conn == nil && ctx.Err() == nil {
				won = r
				cancel()
				continue
			}
			h.take(r, ctx.Err() != nil)
			ready = ready || r.err != nil // nobody waits behind a failure
		}
	}
}

// take books a result that did not win. When late, it says nothing about its
// target: somebody else won, or the caller gave up.
func (h *hunt) take(r result, late bool) {
	closeConn(r.conn)
	switch {
	case r.step == StepLookup && r.err == nil:
		h.resolved(r)
	case late && r.step == StepLookup:
		h.names = append(h.names, r.endpoint)
	case late:
		h.queue = append([]target{r.target}, h.queue...)
	default:
		h.fail(r.target, r.step, r.err)
	}
}

func (h *hunt) resolved(r result) {
	_, portText, _ := net.SplitHostPort(r.endpoint) // checked before it became an endpoint
	port, _ := strconv.ParseUint(portText, 10, 16)
	for _, ip := range r.found[:min(len(r.found), maxAddresses)] {
		t := target{r.endpoint, netip.AddrPortFrom(ip.Unmap(), uint16(port))}
		if !slices.Contains(h.queue, t) {
			h.queue = append(h.queue, t)
		}
	}
}

func (h *hunt) fail(t target, step Step, err error) {
	h.failed = append(h.failed, &Failure{Endpoint: t.endpoint, Address: t.addr, Step: step, Err: err})
}

// pick takes the first target of the other address family than the last
// dialled one, or else the first: one family without a route costs one head
// start, not one for each of its addresses.
func (h *hunt) pick() target {
	i := slices.IndexFunc(h.queue, func(t target) bool {
		return h.last.addr.IsValid() && t.addr.Addr().Is4() != h.last.addr.Addr().Is4()
	})
	i = max(i, 0)
	h.last = h.queue[i]
	h.queue = slices.Delete(h.queue, i, i+1)
	return h.last
}

func (h *hunt) lookup(ctx context.Context, endpoint string) result {
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTimeout, errNoAnswer(lookupTimeout))
	defer cancel()
	host, _, _ := net.SplitHostPort(endpoint)
	found, err := h.network.LookupNetIP(ctx, "ip", host)
	if err == nil && len(found) == 0 {
		err = errors.New("the name has no addresses")
	}
	return result{target: target{endpoint: endpoint}, step: StepLookup, found: found, err: orTimeout(ctx, err)}
}

func (h *hunt) dial(ctx context.Context, t target) result {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errNoAnswer(dialTimeout))
	defer cancel()
	raw, err := h.network.DialContext(ctx, "tcp", t.addr.String())
	if err != nil {
		return result{target: t, step: StepConnect, err: orTimeout(ctx, err)}
	}
	conn := tls.Client(held{raw}, h.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return result{target: t, step: StepTLS, err: orTimeout(ctx, err)}
	}
	return result{target: t, step: StepTLS, conn: conn}
}

// errNoAnswer is the cause of our own time limits.
func errNoAnswer(limit time.Duration) error { return fmt.Errorf("no answer within %s", limit) }

// orTimeout says "no answer within 10s" where err only says that a context or
// an I/O deadline ended.
func orTimeout(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return err
}

// held is a connection that can still be read after HTTP has closed it. A
// TLS 1.3 server judges our certificate when the handshake is done for us; HTTP
// then meets a broken connection, and closes it before it has read why.
type held struct{ net.Conn }

func (h held) Close() error { return h.SetDeadline(time.Unix(1, 0)) }

func closeConn(conn *tls.Conn) {
	if conn != nil {
		conn.NetConn().(held).Conn.Close() // without the alert, which could wait for a full buffer
	}
}

package netcfg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Observe reads the network of the calling thread's namespace. resolvConf is
// the file of name servers, "" when that is not managed.
func Observe(ctx context.Context, resolvConf string) (State, error) {
	conn, err := dialRTNL()
	if err != nil {
		return State{}, err
	}
	defer conn.close()
	return conn.observe(ctx, resolvConf)
}

func (r *rtnl) observe(ctx context.Context, resolvConf string) (State, error) {
	var s State
	for _, list := range []struct {
		name   string
		typ    uint16
		header []byte
		read   func(*State, []byte) error
	}{
		{"links", unix.RTM_GETLINK, linkDumpRequest(), decodeLink},
		{"addresses", unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), decodeAddress},
		{"IPv4 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET), decodeRoute},
		{"IPv6 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET6), decodeRoute},
		{"IPv4 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET), decodeRule},
		{"IPv6 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET6), decodeRule},
	} {
		err := r.list(ctx, &s, list.typ, list.header, list.read)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6
			return State{}, fmt.Errorf("list %s: %w", list.name, err)
		}
	}
	slices.SortFunc(s.Links, func(a, b LinkState) int { return cmp.Compare(a.Index, b.Index) })
	nameBondPorts(s.Links)
	dropOwnLabels(&s)
	readBonding(s.Links)
	readPredictable(s.Links)
	readDrivers(s.Links)
	if err := r.observeWakeOnLAN(&s); err != nil {
		return State{}, err
	}
	return s, readResolvConf(&s, resolvConf)
}

// list adds a whole list to s, read again when a change interrupted it: never
// half.
func (r *rtnl) list(ctx context.Context, s *State, typ uint16, header []byte, read func(*State, []byte) error) error {
	for range dumpTries {
		whole := *s
		interrupted, err := r.dump(ctx, typ, header, func(m []byte) error { return read(&whole, m) })
		if err != nil {
			return err
		}
		if !interrupted {
			*s = whole
			return nil
		}
	}
	return errInterrupted
}

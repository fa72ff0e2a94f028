package netcfg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
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
		typ    netlink.HeaderType
		header []byte
		decode func(*State, []byte) error
	}{
		{"links", unix.RTM_GETLINK, linkDumpRequest(), decodeLink},
		{"addresses", unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), decodeAddress},
		{"IPv4 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET), decodeRoute},
		{"IPv6 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET6), decodeRoute},
		{"IPv4 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET), decodeRule},
		{"IPv6 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET6), decodeRule},
	} {
		msgs, err := r.dump(ctx, list.typ, list.header)
		if errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return State{}, fmt.Errorf("list %s: %w", list.name, err)
		}
		for _, m := range msgs {
			if err := list.decode(&s, m.Data); err != nil {
				return State{}, fmt.Errorf("decode %s: %w", list.name, err)
			}
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

var errShort = errors.New("message is shorter than its header")

// attributes walks the attributes behind a fixed header.
func attributes(data []byte, header int, each func(*netlink.AttributeDecoder)) error {
	if len(data) < header {
		return errShort
	}
	ad, err := netlink.NewAttributeDecoder(data[header:])
	if err != nil {
		return err
	}
	for ad.Next() {
		each(ad)
	}
	return ad.Err()
}

// nested walks the attributes inside one.
func nested(ad *netlink.AttributeDecoder, each func(*netlink.AttributeDecoder)) {
	ad.Nested(func(in *netlink.AttributeDecoder) error {
		for in.Next() {
			each(in)
		}
		return nil
	})
}

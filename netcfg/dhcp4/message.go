package dhcp4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// asked is the options that every request asks for (RFC 2131, section 4.3.1,
// wants the same list each time). Classless routes come before routers (RFC
// 3442): a server with little room fills in the list's order.
var asked = dhcpv4.OptParameterRequestList(
	dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter,
	dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList,
	dhcpv4.OptionHostName, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionNTPServers,
	dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
)

// maxMessage is the longest answer that we take (option 57): what fits an
// Ethernet frame without fragments.
const maxMessage = 1472

// message is a request of the kind with what all of them have.
func (m *Machine) message(kind dhcpv4.MessageType, now time.Duration) *dhcpv4.DHCPv4 {
	d := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootRequest,
		HWType:        iana.HWTypeEthernet,
		TransactionID: m.xid,
		NumSeconds:    uint16(min((now-m.began)/time.Second, 65535)),
		ClientHWAddr:  net.HardwareAddr(m.cfg.MAC[:]),
		ClientIPAddr:  net.IPv4zero,
		YourIPAddr:    net.IPv4zero,
		ServerIPAddr:  net.IPv4zero,
		GatewayIPAddr: net.IPv4zero,
		Options:       dhcpv4.Options{},
	}
	d.UpdateOption(dhcpv4.OptMessageType(kind))
	if len(m.cfg.ClientID) > 0 {
		d.UpdateOption(dhcpv4.OptClientIdentifier(m.cfg.ClientID))
	}
	if kind == dhcpv4.MessageTypeDecline {
		return d // the others must not be in it (RFC 2131, table 5)
	}
	d.UpdateOption(dhcpv4.OptMaxMessageSize(maxMessage))
	d.UpdateOption(asked)
	if m.cfg.Hostname != "" {
		d.UpdateOption(dhcpv4.OptHostName(m.cfg.Hostname))
	}
	return d
}

func netIP(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

// reply is what a server sent.
type reply struct {
	kind    dhcpv4.MessageType
	xid     dhcpv4.TransactionID
	mac     []byte
	address netip.Addr // yiaddr
	server  netip.Addr // option 54
	options dhcpv4.Options
}

// option is nil where it is absent.
func (r *reply) option(code dhcpv4.OptionCode) []byte { return r.options.Get(code) }

// seconds reads an option of 4 bytes. The largest fits a Duration 2 times.
func (r *reply) seconds(code dhcpv4.OptionCode) (time.Duration, bool) {
	b := r.option(code)
	if len(b) != 4 {
		return 0, false
	}
	return time.Duration(binary.BigEndian.Uint32(b)) * time.Second, true
}

// Places in a message (RFC 2131, figure 1).
const (
	snameAt = 44
	fileAt  = 108
	magicAt = 236
)

// parse reads a message from a server.
func parse(b []byte) (*reply, error) {
	d, err := dhcpv4.FromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("malformed: %w", err)
	}
	if err := overloaded(d.Options, b); err != nil {
		return nil, err
	}
	r := &reply{kind: d.MessageType(), xid: d.TransactionID, mac: d.ClientHWAddr, options: d.Options}
	r.address, _ = netip.AddrFromSlice(d.YourIPAddr.To4())
	switch r.kind {
	case dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak:
	default:
		return nil, errors.New("not a server's message")
	}
	if d.OpCode != dhcpv4.OpcodeBootReply {
		return nil, errors.New("not a reply")
	}
	server := addresses(r.option(dhcpv4.OptionServerIdentifier), 1)
	if len(server) == 0 {
		return nil, errors.New("no server identifier")
	}
	r.server = server[0]
	return r, nil
}

// overloaded adds the options that a server put into the fields for file and
// host name (RFC 2132, section 9.3), in RFC 3396's order.
func overloaded(options dhcpv4.Options, b []byte) error {
	value := options.Get(dhcpv4.OptionOptionOverload)
	if len(value) != 1 {
		return nil
	}
	var err error
	if value[0]&1 != 0 {
		err = options.FromBytes(b[fileAt:magicAt])
	}
	if value[0]&2 != 0 && err == nil {
		err = options.FromBytes(b[snameAt:fileAt])
	}
	if err != nil {
		return fmt.Errorf("malformed: %w", err)
	}
	return nil
}

// isOurs reports whether the reply answers the current exchange. A server that
// echoes the client identifier (RFC 6842) must echo ours: two clients may have
// the same MAC behind a relay.
func (m *Machine) isOurs(r *reply) bool {
	id := r.option(dhcpv4.OptionClientIdentifier)
	return r.xid == m.xid && bytes.Equal(r.mac, m.cfg.MAC[:]) &&
		(id == nil || len(m.cfg.ClientID) == 0 || bytes.Equal(id, m.cfg.ClientID))
}

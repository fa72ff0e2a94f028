package dhcp6

import (
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
)

var kinds = map[State]dhcpv6.MessageType{
	Soliciting: dhcpv6.MessageTypeSolicit,
	Requesting: dhcpv6.MessageTypeRequest,
	Confirming: dhcpv6.MessageTypeConfirm,
	Renewing:   dhcpv6.MessageTypeRenew,
	Rebinding:  dhcpv6.MessageTypeRebind,
	Informing:  dhcpv6.MessageTypeInformationRequest,
}

// message is the state's.
func (m *Machine) message(now time.Duration) *dhcpv6.Message {
	d := m.header(kinds[m.state], now)
	switch m.state {
	case Soliciting:
		d.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		d.AddOption(m.identity(nil))
	case Requesting:
		d.AddOption(serverID(m.offer.Server))
		d.AddOption(m.identity(m.offer.Addresses))
	case Renewing:
		d.AddOption(serverID(m.lease.Server))
		d.AddOption(m.identity(m.lease.Addresses))
	case Rebinding, Confirming:
		d.AddOption(m.identity(m.lease.Addresses))
	}
	if m.state == Confirming {
		return d // it asks for nothing
	}
	// SOL_MAX_RT and INF_MAX_RT must be asked for (RFC 8415, section 18.2.1);
	// our pace is never slower than what servers set them to.
	codes := []dhcpv6.OptionCode{
		dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList,
		dhcpv6.OptionNTPServer, dhcpv6.OptionSNTPServerList, dhcpv6.OptionSolMaxRT,
	}
	if m.state == Informing {
		codes = append(codes, dhcpv6.OptionInformationRefreshTime, dhcpv6.OptionInfMaxRT)
	}
	d.AddOption(dhcpv6.OptRequestedOption(codes...))
	return d
}

func (m *Machine) header(kind dhcpv6.MessageType, now time.Duration) *dhcpv6.Message {
	d := &dhcpv6.Message{MessageType: kind, TransactionID: m.xid}
	d.AddOption(dhcpv6.OptClientID(m.duid))
	d.AddOption(dhcpv6.OptElapsedTime(min(now-m.began, mostElapsed)))
	return d
}

// mostElapsed is what the option can say: 0xffff hundredths of a second.
const mostElapsed = 0xffff * 10 * time.Millisecond

// decline tells a server that an address of its is in use.
func (m *Machine) decline(now time.Duration, a Address) *dhcpv6.Message {
	d := m.header(dhcpv6.MessageTypeDecline, now)
	d.AddOption(serverID(m.lease.Server))
	d.AddOption(m.identity([]Address{a}))
	return d
}

// identity is our IA_NA. Lifetimes and T1, T2 are zero: the server chooses.
func (m *Machine) identity(addresses []Address) dhcpv6.Option {
	ia := &dhcpv6.OptIANA{IaId: m.cfg.IAID}
	for _, a := range addresses {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.IP.AsSlice()})
	}
	return ia
}

// serverID is the option with a DUID of whatever kind, as it came.
func serverID(duid []byte) dhcpv6.Option {
	return &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: duid}
}

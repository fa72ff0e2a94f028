package netcfg

import "net/netip"

// Status is the network as an operator wants to know it.
type Status struct {
	Converged bool         // the last plan was empty
	Failed    string       // the operation that the last pass stopped at, and why
	Waits     []Wait       // what the wish still waits for, in document order
	Links     []LinkStatus // wanted links in document order
	Addresses []netip.Addr // usable, most preferred first
}

// Wait is something that is not there yet and that no write of ours can bring.
type Wait struct {
	Link     string // id in the document
	Reason   string // "no interface with MAC 02:00:00:00:00:01"
	Optional bool   // nobody needs to wait for it
}

// String is `waiting for eth1: no interface with MAC ...`.
func (w Wait) String() string { return "waiting for " + w.Link + ": " + w.Reason }

// LinkStatus compares one wanted link with what is there.
type LinkStatus struct {
	ID, Name, Kind, MAC string // Name is "" while the interface is missing
	Up, Carrier         bool
	MTU                 int
	Addresses           []AddressStatus
	Ports               []PortStatus // of a bond
	Problem             string       // one sentence, "" when all is well
}

// AddressStatus is a wanted address. State is "ok", "tentative", "dadfailed",
// "deprecated" or "missing".
type AddressStatus struct {
	Prefix netip.Prefix
	State  string
}

// PortStatus is a wanted port of a bond.
type PortStatus struct {
	ID, Name string // Name is "" while the interface is missing
	Enslaved bool
	Carrier  bool
	Active   bool // carries the bond's traffic
}

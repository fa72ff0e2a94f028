// Package params finds and checks the node parameters: the small node.yaml an
// operator gives each node, and the `reveille.` keys of the kernel command
// line that override single settings of it.
//
//	settings, err := params.ParseCommandLine(cmdline)     // init: consoles, before all else
//	p, looked, err := params.Load(ctx, params.Places{..}) // agent: may be called again and again
//
// Parse and ParseCommandLine are pure; Load only reads files. What they return
// without an error cannot be invalid.
package params

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"go.yaml.in/yaml/v3"

	"reveille/boot/identity"
	"reveille/boot/service"
	"reveille/netcfg"
)

// Params is a node.yaml that was found right, with the settings of the kernel
// command line applied.
type Params struct {
	Name      string // a DNS label
	Endpoints []string
	CA        identity.Pin
	Ticket    Secret // zero when there is none: only enrolment needs it
	TPM       TPMMode
	Network   *netcfg.Config
	Sysctls   []netcfg.Sysctl // in the order in which they are written
	API       API
	Services  service.Definitions // of this node alone; the cluster's come to them
	Settings  Settings
	Source    string // the candidate they came from
	Document  Secret // as it was read; exported, or fmt would not ask it to refuse
}

// API is where the node's own API listens and is to be reached.
type API struct {
	Listen    string   // host:port; an empty host is every address
	Advertise []string // host:port; empty: the node's addresses with the port of Listen
}

// TPMMode says what a node may do without a usable TPM, until the cluster has
// decided for good at enrolment.
type TPMMode string

// The modes. See docs/adr/0004-sealed-config.md.
const (
	TPMRequired  TPMMode = "required"
	TPMPreferred TPMMode = "preferred"
	TPMDisabled  TPMMode = "disabled"
)

var tpmModes = []string{string(TPMRequired), string(TPMPreferred), string(TPMDisabled)}

const (
	// DefaultListen is the port beside the controller's usual 7443.
	DefaultListen = ":7444"
	// maxEndpoints is far above any list a person writes.
	maxEndpoints = 64
)

// Parse checks a node.yaml; file is its name in the problems. The error is a
// netcfg.Problems with everything that is wrong, in document order.
func Parse(file string, text []byte) (*Params, error) {
	doc := netcfg.ReadDocument(file, text)
	p := &Params{}
	p.read(doc, file)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Params) read(doc *netcfg.Document, file string) {
	m := doc.Root().Mapping(netcfg.Keys{Known: []string{"version", "name", "cluster", "tpm", "network", "sysctls", "api", "services", "payloads", "secrets"}})
	if !isMapping(doc.Root()) {
		return // reported, and its keys are not missing
	}
	checked(m.Require("version"), func(s string) error {
		if s != "1" {
			return errors.New("wants 1, the only version so far")
		}
		return nil
	})
	p.Name = checked(m.Require("name"), identity.CheckName)
	p.readCluster(m.Require("cluster"))
	p.TPM = TPMPreferred
	if v := m.Get("tpm"); v.Set() {
		p.TPM = TPMMode(v.Enum(tpmModes...))
	}
	p.readAPI(m.Get("api"))
	p.Sysctls = netcfg.ReadSysctls(m.Get("sysctls"))
	p.Services = service.Read(m, 0, service.Elsewhere{})
	network := m.Require("network")
	if network.Names(); !isMapping(network) {
		return
	}
	var err error
	p.Network, err = netcfg.ParseNode(file, network.Node())
	doc.Merge(err)
	if p.Network != nil && len(p.Sysctls) > 0 {
		p.Network.CheckSysctls(m.Get("sysctls"))
	}
}

func (p *Params) readCluster(v netcfg.Value) {
	m := v.Mapping(netcfg.Keys{Known: []string{"endpoints", "ca", "ticket"}})
	if !isMapping(v) {
		return
	}
	endpoints := m.Require("endpoints")
	p.Endpoints = addresses(endpoints)
	if n := endpoints.Node(); n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		endpoints.Invalid("wants at least one host:port")
	}
	checked(m.Require("ca"), func(s string) (err error) {
		if p.CA, err = identity.ParsePin(s); err != nil {
			return errors.New("wants sha256: and 64 hex digits, as `controller ready` prints them")
		}
		return nil
	})
	checked(m.Get("ticket"), func(s string) (err error) {
		p.Ticket, err = NewTicket(s)
		return err
	})
}

func (p *Params) readAPI(v netcfg.Value) {
	m := v.Mapping(netcfg.Keys{Known: []string{"listen", "advertise"}})
	p.API.Listen = DefaultListen
	if v := m.Get("listen"); v.Set() {
		p.API.Listen = checked(v, checkListen)
	}
	p.API.Advertise = addresses(m.Get("advertise"))
}

// addresses reads a list of host:port.
func addresses(v netcfg.Value) []string {
	var out []string
	first := map[string]int{}
	for _, item := range v.Sequence() {
		addr := checked(item, identity.CheckAddress)
		if line, twice := first[addr]; twice && addr != "" {
			item.Invalid("is given twice, first in line %d", line)
		}
		first[addr] = item.Line()
		out = append(out, addr)
	}
	if len(out) > maxEndpoints {
		v.Invalid("has %d entries, at most %d are used", len(out), maxEndpoints)
	}
	return out
}

// checked is the text of v if check finds nothing wrong with it.
func checked(v netcfg.Value, check func(string) error) string {
	s := v.Scalar()
	if !isText(v) { // absent, or reported by Scalar
		return ""
	}
	if err := check(s); err != nil {
		v.Invalid("%v", err)
		return ""
	}
	return s
}

func isText(v netcfg.Value) bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null"
}

func isMapping(v netcfg.Value) bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.MappingNode
}

// checkListen wants host:port whose host is empty or an address: a name may
// not be resolvable when the API starts.
func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("check address %q: want host:port or :port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("check address %q: want a port of 1 to 65535", s)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil {
		return fmt.Errorf("check address %q: want an IP address or nothing before the port", s)
	}
	return nil
}

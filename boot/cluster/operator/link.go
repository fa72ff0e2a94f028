package operator

import (
	"fmt"
	"strings"

	"reveille/boot/cluster/clusterv1"
)

// Link is one network link of a node.
type Link struct {
	Name        string        `json:"name" yaml:"name"`
	Kind        string        `json:"kind" yaml:"kind"`
	MAC         string        `json:"mac" yaml:"mac"`
	MTU         uint32        `json:"mtu" yaml:"mtu"`
	Up          bool          `json:"up" yaml:"up"`
	Carrier     bool          `json:"carrier" yaml:"carrier"`
	Addresses   []LinkAddress `json:"addresses" yaml:"addresses"`
	Mode        string        `json:"mode" yaml:"mode"` // of a bond
	Ports       []Port        `json:"ports" yaml:"ports"`
	LACPActor   string        `json:"lacpActor" yaml:"lacpActor"`
	LACPPartner string        `json:"lacpPartner" yaml:"lacpPartner"`
	Aggregator  uint32        `json:"aggregator" yaml:"aggregator"`
	Leases      []string      `json:"leases" yaml:"leases"`
	Problem     string        `json:"problem" yaml:"problem"`
}

// LinkAddress is an address of a link.
type LinkAddress struct {
	Prefix string `json:"prefix" yaml:"prefix"`
	State  string `json:"state" yaml:"state"`   // ok, tentative, dadfailed, deprecated, missing
	Wanted bool   `json:"wanted" yaml:"wanted"` // by the node's network document
}

// Port is a port of a bond.
type Port struct {
	Name          string `json:"name" yaml:"name"`
	Carrier       bool   `json:"carrier" yaml:"carrier"`
	InUse         bool   `json:"inUse" yaml:"inUse"`
	LACPPartner   string `json:"lacpPartner" yaml:"lacpPartner"`
	Aggregator    uint32 `json:"aggregator" yaml:"aggregator"`
	Churned       bool   `json:"churned" yaml:"churned"`
	SpeedMbps     uint32 `json:"speedMbps" yaml:"speedMbps"` // 0: not known
	CarrierLosses uint32 `json:"carrierLosses" yaml:"carrierLosses"`
}

func linksOf(st *clusterv1.NodeStatus) []Link {
	out := []Link{}
	for _, l := range st.GetLinks() {
		v := Link{
			Name: l.GetName(), Kind: l.GetKind(), MAC: l.GetMac(), MTU: l.GetMtu(), Up: l.GetUp(), Carrier: l.GetCarrier(),
			Addresses: []LinkAddress{}, Mode: l.GetMode(), Ports: []Port{},
			LACPActor: l.GetLacpActor(), LACPPartner: l.GetLacpPartner(), Aggregator: l.GetAggregator(),
			Leases: append([]string{}, l.GetLeases()...), Problem: l.GetProblem(),
		}
		for _, a := range l.GetAddresses() {
			v.Addresses = append(v.Addresses, LinkAddress{a.GetPrefix(), a.GetState(), a.GetWanted()})
		}
		for _, p := range l.GetPorts() {
			v.Ports = append(v.Ports, Port{p.GetName(), p.GetCarrier(), p.GetInUse(), p.GetLacpPartner(), p.GetAggregator(),
				p.GetChurned(), p.GetSpeed(), p.GetCarrierLosses()})
		}
		out = append(out, v)
	}
	return out
}

// linkRows is the links of `node show`, one a row, and below it what is wrong.
func linkRows(n Node) []string {
	var rows []string
	for _, l := range n.Links {
		rows = append(rows, "link "+l.Name+"\t"+l.line())
		for _, lease := range l.Leases {
			rows = append(rows, "\t"+lease)
		}
		if l.Problem != "" {
			rows = append(rows, "\t"+l.Problem)
		}
	}
	if n.MoreLinks > 0 {
		rows = append(rows, "\t"+count(n.MoreLinks, "more link"))
	}
	return rows
}

func (l Link) line() string {
	state := "up"
	switch {
	case !l.Up:
		state = "down"
	case !l.Carrier:
		state = "no carrier"
	}
	parts := []string{state, l.Kind}
	if l.Mode != "" {
		use := 0
		for _, p := range l.Ports {
			if p.InUse {
				use++
			}
		}
		parts = append(parts, l.Mode, fmt.Sprintf("%d of %d ports in use", use, len(l.Ports)))
	}
	if l.LACPPartner != "" {
		parts = append(parts, "partner "+l.LACPPartner)
	}
	var addresses []string
	for _, a := range l.Addresses {
		switch {
		case a.State == "ok":
			addresses = append(addresses, a.Prefix)
		case a.Wanted:
			addresses = append(addresses, a.Prefix+" ("+a.State+")")
		}
	}
	if len(addresses) > 0 {
		parts = append(parts, few(addresses, 4))
	}
	return strings.Join(parts, ", ")
}

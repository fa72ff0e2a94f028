package service

import (
	"fmt"
	"slices"
)

// Definitions is what one document defines: node.yaml, or the cluster's desired
// configuration of a node.
type Definitions struct {
	Services []Service // in document order
	Payloads []Payload
	Secrets  Secrets
}

// Wish is what operators have asked of one service since it was defined.
type Wish struct {
	Service string
	Stopped bool
	// Start is the generation with which a new incarnation was last asked for
	// by name, 0 for never: whoever has not obeyed this number yet starts the
	// service, even one that is never restarted.
	Start uint64
}

// Desired is all that a node is to run: its own definitions, and the cluster's.
type Desired struct {
	Definitions
	Wishes     []Wish
	Generation uint64 // of the cluster's document that is in it; 0: none is
}

// Service is the definition of that name.
func (d *Definitions) Service(name string) (Service, bool) {
	i := slices.IndexFunc(d.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		return Service{}, false
	}
	return d.Services[i], true
}

// Payload is the definition of that name.
func (d *Definitions) Payload(name string) (Payload, bool) {
	i := slices.IndexFunc(d.Payloads, func(p Payload) bool { return p.Name == name })
	if i < 0 {
		return Payload{}, false
	}
	return d.Payloads[i], true
}

// Wish is what was asked of a service; the zero Wish lets it run.
func (d *Desired) Wish(name string) Wish {
	i := slices.IndexFunc(d.Wishes, func(w Wish) bool { return w.Service == name })
	if i < 0 {
		return Wish{Service: name}
	}
	return d.Wishes[i]
}

// Merge is what a node runs by two documents, the cluster's of the given
// generation. A name has one definition: the cluster's document may need
// services of the node's own, and may not define one of their names again.
func Merge(own, cluster Definitions, wishes []Wish, generation uint64) (Desired, error) {
	d := Desired{Wishes: slices.Clone(wishes), Generation: generation}
	d.Services = slices.Concat(own.Services, cluster.Services)
	d.Payloads = slices.Concat(own.Payloads, cluster.Payloads)
	d.Secrets = slices.Concat(own.Secrets, cluster.Secrets)
	for _, s := range cluster.Services {
		if _, twice := own.Service(s.Name); twice {
			return Desired{}, fmt.Errorf("define service %s: node.yaml defines it too", s.Name)
		}
	}
	for _, p := range cluster.Payloads {
		if _, twice := own.Payload(p.Name); twice {
			return Desired{}, fmt.Errorf("define payload %s: node.yaml defines it too", p.Name)
		}
	}
	for _, s := range cluster.Secrets {
		if _, twice := own.Secrets.Get(s.Name); twice {
			return Desired{}, fmt.Errorf("define secret %s: node.yaml defines it too", s.Name)
		}
	}
	for _, s := range cluster.Services {
		for _, need := range s.Needs {
			if _, ok := d.Service(need); !ok {
				return Desired{}, fmt.Errorf("define service %s: it needs %s, which nobody defines", s.Name, need)
			}
		}
	}
	return d, nil
}

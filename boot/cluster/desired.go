package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/service"
	"reveille/netcfg"
)

// desired is the desired configuration of a node under change. A change leaves
// the old one as it was.
type desired struct {
	*clusterv1.DesiredServices
	defined service.Definitions // by its document
	own     service.Elsewhere   // what the node defines by itself, as it said
	broken  error               // the document has problems by this release's rules
	told    uint64              // generation that the node has: more than ours after a store was restored
}

// openDesired reads a stored one, which was checked when it was applied.
func openDesired(stored *clusterv1.DesiredServices, status *clusterv1.NodeStatus) *desired {
	d := &desired{DesiredServices: proto.CloneOf(stored), told: status.GetServicesGeneration()}
	for _, s := range status.GetServices() {
		if s.GetGeneration() == 0 {
			d.own.Services = append(d.own.Services, s.GetName())
		}
	}
	d.own.More = status.GetMoreServices() > 0
	if len(d.Document) > 0 {
		// The node may have told less by now (it boots): its own are not asked for.
		d.defined, d.broken = service.Parse("stored document", d.Document, d.Generation, service.Elsewhere{More: true})
	}
	return d
}

// next is a generation that the node never had.
func (d *desired) next() { d.Generation = max(d.Generation, d.told) + 1 }

// changes is what one document has and another has not.
type changes struct{ added, changed, removed []string }

func (c changes) none() bool { return len(c.added)+len(c.changed)+len(c.removed) == 0 }

func changesOf(from, to service.Definitions) (c changes) {
	for _, s := range to.Services {
		switch was, ok := from.Service(s.Name); {
		case !ok:
			c.added = append(c.added, s.Name)
		case was.Digest != s.Digest:
			c.changed = append(c.changed, s.Name)
		}
	}
	for _, s := range from.Services {
		if _, ok := to.Service(s.Name); !ok {
			c.removed = append(c.removed, s.Name)
		}
	}
	return c
}

// apply makes document the desired one. Problems are netcfg.Problems.
func (d *desired) apply(file string, document []byte, prune bool) (changes, error) {
	if len(document) > service.MaxDocument {
		return changes{}, netcfg.Problems{{File: file, Text: fmt.Sprintf("is %d bytes long, at most %d are taken", len(document), service.MaxDocument)}}
	}
	defined, err := service.Parse(file, document, d.Generation+1, d.own)
	if err != nil {
		return changes{}, err
	}
	c := changesOf(d.defined, defined)
	if (len(c.removed) > 0 || d.broken != nil) && !prune {
		return changes{}, &lacking{c.removed}
	}
	if c.none() && string(document) == string(d.Document) {
		return c, nil
	}
	d.Wishes = slices.DeleteFunc(d.Wishes, func(w *clusterv1.ServiceWish) bool { return slices.Contains(c.removed, w.GetService()) })
	d.defined, d.Document, d.broken = defined, document, nil
	d.next()
	return c, d.fits(file)
}

// fits checks that a node can keep it.
func (d *desired) fits(file string) error {
	b, err := proto.Marshal(d.DesiredServices)
	if err == nil {
		_, err = service.Pack(b)
	}
	if err != nil {
		return netcfg.Problems{{File: file, Text: err.Error()}}
	}
	return nil
}

// lacking: a document would remove services without saying so.
type lacking struct{ services []string }

func (l *lacking) Error() string {
	if len(l.services) == 0 {
		return "the stored document cannot be compared: it is not valid for this release"
	}
	return fmt.Sprintf("the document lacks %s", some("service", l.services))
}

// some is a few of a list, for a message.
func some(what string, names []string) string {
	const few = 5
	if len(names) > 1 {
		what += "s"
	}
	if more := len(names) - few; more > 0 {
		return fmt.Sprintf("%s %s and %d more", what, strings.Join(names[:few], ", "), more)
	}
	return what + " " + strings.Join(names, ", ")
}

var errNoService = errors.New("nobody defines it")

// wish is the record of what was asked of a service.
func (d *desired) wish(name string) (*clusterv1.ServiceWish, error) {
	_, ok := d.defined.Service(name)
	if !ok && !slices.Contains(d.own.Services, name) && !d.own.More {
		return nil, errNoService
	}
	for _, w := range d.Wishes {
		if w.GetService() == name {
			return w, nil
		}
	}
	w := &clusterv1.ServiceWish{Service: name}
	d.Wishes = append(d.Wishes, w)
	return w, nil
}

// start asks for a new incarnation, each time again.
func (d *desired) start(name string) error {
	w, err := d.wish(name)
	if err != nil {
		return err
	}
	d.next()
	w.Stopped, w.Start = false, d.Generation
	return nil
}

// stop asks once.
func (d *desired) stop(name string) error {
	w, err := d.wish(name)
	if err != nil || w.GetStopped() {
		return err
	}
	d.next()
	w.Stopped = true
	return nil
}

// remove takes a definition out of the document.
func (d *desired) remove(name string) error {
	if _, ok := d.defined.Service(name); !ok {
		return cmp.Or(d.broken, errNoService)
	}
	document, err := service.Without(d.Document, name)
	if err != nil {
		return err
	}
	_, err = d.apply("document without "+name, document, true)
	return err
}

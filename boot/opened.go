package boot

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"reveille/boot/identity"
	"reveille/boot/state"
	"reveille/tpm"
)

// opened is what the cluster gave this node, as this boot holds it.
type opened struct {
	vault *state.Vault
	tpm   bool // the machine has one that can seal

	mu     sync.Mutex
	config state.Config
	stored state.Info

	key  *identity.Key
	cert *x509.Certificate
	ca   *x509.Certificate
}

func (o *opened) info() state.Info {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stored
}

func (o *opened) set(c state.Config, i state.Info) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.config, o.stored = c, i
}

// now is the config as it is stored.
func (o *opened) now() state.Config {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.config
}

// lastTime is the latest time that the cluster told and that was stored.
func (o *opened) lastTime() time.Time {
	return o.now().ClusterTime
}

// forgetTPM has the next try open a TPM again that did not answer.
func (o *opened) forgetTPM() {
	if !o.tpm {
		o.vault = nil
	}
}

func (o *opened) tls() tls.Certificate { return identity.Certificate(o.cert, o.ca, o.key) }

// checkName wants what was stored to be this node's, before it is used or
// shown to the cluster.
func (n *Node) checkName(c state.Config) error {
	if c.NodeName == n.params.Name {
		return nil
	}
	return Held{
		Err:    fmt.Errorf("use stored config: it is of node %s, the node parameters say %s", c.NodeName, n.params.Name),
		Remedy: "correct name in the node parameters and reboot",
	}
}

// useIdentity checks that what was stored is one identity of the cluster that
// the operator means.
func (n *Node) useIdentity(c state.Config) error {
	o := &n.opened
	if err := o.parse(c); err != nil {
		return Held{Err: err, Remedy: tpm.Corrupt.Remedy()}
	}
	// Whoever runs code on this machine can seal a config of their own; the
	// operator's pin is what they cannot have changed with it.
	if identity.PinOf(o.ca) != n.params.CA {
		return Held{
			Err:    fmt.Errorf("use stored config: it is of a cluster with CA %s, the node parameters say %s", identity.PinOf(o.ca).Short(), n.params.CA.Short()),
			Remedy: "correct cluster.ca in the node parameters and reboot",
		}
	}
	return nil
}

// parse reads the identity in c, whose parts must belong together.
func (o *opened) parse(c state.Config) (err error) {
	if o.key, err = identity.ParseKey(c.Key); err != nil {
		return fmt.Errorf("use stored config: %w", err)
	}
	if o.ca, err = x509.ParseCertificate(c.CA); err != nil {
		return fmt.Errorf("use stored CA certificate: %w", err)
	}
	if o.cert, err = x509.ParseCertificate(c.Certificate); err != nil {
		return fmt.Errorf("use stored certificate: %w", err)
	}
	want := identity.Peer{ClusterID: c.ClusterID, Role: identity.RoleNode, Name: c.NodeName}
	return identity.CheckNode(o.cert, o.ca, want, o.key.Public())
}

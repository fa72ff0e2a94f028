package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
	"reveille/boot/join"
	"reveille/boot/nodeapi"
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

// config opens what the cluster once gave this node or, on a node that was
// never here, enrols it. Only tpm.Absent means the latter; every other fault
// of the stored config stops here with its own message.
func (n *Node) config(ctx context.Context) error {
	if err := n.findVault(ctx); err != nil {
		return err
	}
	c, err := n.recall(ctx)
	if errors.Is(err, tpm.Absent) {
		c, err = n.firstKey(ctx)
	}
	if err != nil {
		n.opened.forgetTPM()
		return sealedFault(err)
	}
	if n.opened.info().Sealed && !n.opened.tpm {
		// An agent before this one opened it. This one must still tell the
		// TPM that nobody else may.
		n.opened.forgetTPM()
		return fmt.Errorf("open the TPM again: %w", tpm.Unresponsive)
	}
	if n.client == nil {
		if n.client, err = n.newClient(); err != nil {
			return err
		}
	}
	if c.Phase == state.Enrolling {
		if c, err = n.enrol(ctx, c); err != nil {
			return err
		}
	}
	if err := n.useIdentity(c); err != nil {
		return err
	}
	n.keep(ctx, "nodeapi", n.serveAPI)
	return n.notBefore(c.ClusterTime, "the last time the cluster told")
}

// findVault waits for the state partition, and opens the TPM if there is one.
func (n *Node) findVault(ctx context.Context) error {
	if n.opened.vault != nil {
		return nil
	}
	log := n.logger("config")
	n.track.Explain("config", func() string { return "looking for a FAT file system labelled " + state.Label })
	defer n.track.Explain("config", nil)
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p, err := n.partition.mount(waiting)
	if err != nil {
		return err
	}
	if readOnly, err := p.ReadOnly(); err != nil || readOnly {
		n.said.log(log, slog.LevelWarn, "state partition "+p.Device+" is read-only: what changes in this boot is lost with it")
	}
	n.track.Explain("config", func() string { return "waiting for the TPM to answer" })
	dev, why := tpm.Open(ctx, tpm.Options{})
	if why != nil {
		n.said.log(log, slog.LevelWarn, fmt.Sprintf("%v; node parameters say tpm: %s", why, n.params.TPM))
	} else {
		log.Info(fmt.Sprintf("%s, binding to %s", dev, dev.Binding()))
	}
	n.opened.tpm = why == nil
	n.opened.vault = p.Vault(dev, why, tpm.Mode(n.params.TPM))
	return nil
}

// recall takes over what an agent before this one left with init, or opens the
// config on the state partition.
func (n *Node) recall(ctx context.Context) (state.Config, error) {
	log := n.logger("config")
	left, err := n.init.Kept(ctx)
	if err != nil {
		return state.Config{}, err
	}
	var c state.Config
	var info state.Info
	if len(left) > 0 {
		c, info, err = n.opened.vault.Resume(left)
	} else {
		c, info, err = n.opened.vault.Load(ctx)
	}
	for _, w := range info.Warnings {
		log.Warn(w)
	}
	if err != nil {
		return c, err
	}
	log.Info(fmt.Sprintf("opened generation %d, sealed to %s", info.Generation, info.Binding))
	n.opened.set(c, info)
	return c, n.leave(ctx)
}

// firstKey makes the node's key and stores it before it is shown to anybody:
// the ticket will be good for this key only, so a reply that is lost can be
// asked for again after any power cut.
func (n *Node) firstKey(ctx context.Context) (state.Config, error) {
	n.said.log(n.logger("config"), slog.LevelInfo, "nothing stored: a new node, enrolling with its ticket")
	key, err := identity.NewKey()
	if err != nil {
		return state.Config{}, err
	}
	der, err := key.Marshal()
	if err != nil {
		return state.Config{}, err
	}
	c := state.Config{Phase: state.Enrolling, NodeName: n.params.Name, Key: der}
	return c, n.store(ctx, c)
}

// store saves c and leaves it with init for an agent to come.
func (n *Node) store(ctx context.Context, c state.Config) error {
	info, err := n.opened.vault.Save(ctx, c)
	if err != nil {
		return err
	}
	n.opened.set(c, info)
	return n.leave(ctx)
}

func (n *Node) leave(ctx context.Context) error {
	left, err := n.opened.vault.Keep()
	if err != nil {
		return err
	}
	return n.init.Keep(ctx, left)
}

func (n *Node) newClient() (*join.Client, error) {
	return join.New(join.Config{
		Endpoints:      n.params.Endpoints,
		Clock:          n.trustedTime,
		Log:            n.logger("join"),
		WaitingIsShown: true, // by the stage that waits
	})
}

// enrol asks the cluster to take this node in, as soon as there is a network.
func (n *Node) enrol(ctx context.Context, c state.Config) (state.Config, error) {
	n.track.Explain("config", func() string { return "needs the network to enrol" })
	defer n.track.Explain("config", nil)
	if err := n.track.Await(ctx, "network"); err != nil {
		return c, err
	}
	n.track.Explain("config", n.client.Waiting)
	key, err := identity.ParseKey(c.Key)
	if err != nil {
		return c, Held{Err: err, Remedy: tpm.Corrupt.Remedy()}
	}
	grant, err := n.client.Enrol(ctx, join.Enrolment{
		Pin: n.params.CA, Ticket: n.params.Ticket, Name: c.NodeName, Key: key,
		TPMMode: n.params.TPM, TPMPresent: n.opened.tpm, BootID: n.bootID, BuildID: n.build.ID,
	})
	if err != nil {
		return c, refusedForGood(err)
	}
	if err := n.clusterTime(grant.ClusterTime); err != nil {
		return c, err
	}
	c.Phase = state.Enrolled
	c.NodeID, c.ClusterID = grant.NodeID, grant.Peer.ClusterID
	c.Certificate, c.CA = grant.Certificate.Raw, grant.CA.Raw
	c.Directory, c.DirectorySignature = grant.Signed.GetDirectory(), grant.Signed.GetSignature()
	c.ClusterTime = grant.ClusterTime
	c.TPMMode = tpm.Disabled
	if grant.TPMMode == clusterv1.TpmMode_TPM_MODE_REQUIRED {
		c.TPMMode = tpm.Required
	}
	if err := n.store(ctx, c); err != nil {
		return c, sealedFault(err)
	}
	n.logger("config").Info(fmt.Sprintf("enrolled in cluster %s, stored as generation %d, sealed to %s", c.ClusterID, n.opened.info().Generation, n.opened.info().Binding))
	return c, nil
}

// useIdentity checks that what was stored is one identity, and this node's.
func (n *Node) useIdentity(c state.Config) error {
	if c.NodeName != n.params.Name {
		return Held{
			Err:    fmt.Errorf("use stored config: it is of node %s, the node parameters say %s", c.NodeName, n.params.Name),
			Remedy: "correct name in the node parameters and reboot",
		}
	}
	o := &n.opened
	if err := o.parse(c); err != nil {
		return Held{Err: err, Remedy: tpm.Corrupt.Remedy()}
	}
	// Whoever runs code on this machine can seal a config of their own; the
	// operator's pin is what they cannot have changed with it.
	if identity.PinOf(o.ca) != n.params.CA {
		return Held{
			Err:    fmt.Errorf("use stored config: it is of a cluster with CA %s, the node parameters say %s", identity.PinOf(o.ca), n.params.CA),
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

func (n *Node) serveAPI(ctx context.Context) error {
	return nodeapi.New(nodeapi.Config{
		Listen: n.params.API.Listen,
		TLS:    identity.ServerTLS(n.opened.ca, n.opened.tls(), n.trustedTime),
		Logs:   initLog{n.init},
		Log:    n.logger("nodeapi"),
	}).Run(ctx)
}

// sealedFault adds the remedy, and holds the stage where only an operator can
// apply it. A TPM or disk that does not answer may do so at the next try.
func sealedFault(err error) error {
	outcome := tpm.OutcomeOf(err)
	switch outcome {
	case 0:
		return err
	case tpm.Unreadable, tpm.Unresponsive, tpm.Lockout, tpm.Missing:
		return fmt.Errorf("%w; %s", err, outcome.Remedy())
	}
	return Held{Err: err, Remedy: outcome.Remedy()}
}

// refusedForGood holds the stage when asking again cannot change the answer.
func refusedForGood(err error) error {
	var refused *join.Refused
	if errors.As(err, &refused) || errors.Is(err, join.ErrNoTicket) {
		return Held{Err: err}
	}
	return err
}

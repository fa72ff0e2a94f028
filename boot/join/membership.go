package join

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
)

const (
	// defaultInterval is for a controller that does not say.
	defaultInterval = 10 * time.Second
	// The bounds of what a controller may ask: it must not make us flood it,
	// nor silence us for longer than an operator would wait for news.
	minInterval = time.Second
	maxInterval = 5 * time.Minute
	// kickGap is the least time between heartbeats, for a status that flaps.
	kickGap = time.Second
	// stable is how long a session must hold for the next loss to be met with
	// short delays again.
	stable = time.Minute
)

// Member is who joins: the node's identity and this boot.
type Member struct {
	CA               *x509.Certificate
	Certificate      tls.Certificate // see identity.Certificate
	BootID           string
	BuildID          string
	ConfigGeneration uint64 // of the sealed config that was opened

	// Directory is the last good one. A bad one is said and not used.
	Directory *clusterv1.SignedDirectory
	// KeepDirectory is given each newer directory after it was verified. It
	// runs between heartbeats; on an error it is called again with the next.
	KeepDirectory func(context.Context, *clusterv1.SignedDirectory) error
	// Services is the generation of the services that the node was given last.
	Services func() uint64
	// KeepServices is given those of another generation, between heartbeats. It
	// says itself what is wrong with them, to the log and in Status.
	KeepServices func(context.Context, *clusterv1.DesiredServices)
	// Status is the node's truth, asked for at each heartbeat.
	Status func() *clusterv1.NodeStatus
}

// Membership is a node that has joined.
type Membership struct {
	client *Client
	member Member
	tls    *tls.Config
	log    *slog.Logger
	kick   chan struct{}

	// Only the step that runs (Join, then Run) uses these.
	session    *session
	joined     time.Time
	interval   time.Duration
	offered    *clusterv1.SignedDirectory // by the last answer; nil when it had nothing newer
	services   *clusterv1.DesiredServices // the same
	generation uint64                     // of the directory that was kept
	complaint  string                     // about a directory, so that it is said once

	mu   sync.Mutex
	time time.Time // the cluster's, and
	at   time.Time // when it was told
}

// Join announces this boot until the cluster accepts or refuses it. Errors:
// *Refused, or ctx's.
func (c *Client) Join(ctx context.Context, m Member) (*Membership, error) {
	ms := &Membership{
		client: c,
		member: m,
		tls:    identity.ClientTLS(m.CA, m.Certificate, identity.Peer{Role: identity.RoleController}, c.clock),
		log:    c.log,
		kick:   make(chan struct{}, 1),
	}
	ms.recall()
	if err := ms.connect(ctx, !c.shown); err != nil {
		return nil, err
	}
	return ms, nil
}

// recall starts with the directory that was kept.
func (ms *Membership) recall() {
	dir, err := identity.VerifyDirectory(ms.member.Directory, ms.member.CA)
	if err != nil {
		ms.log.Warn("kept directory is not usable, going by the node parameters", "err", err)
		return
	}
	ms.generation = dir.GetGeneration()
	ms.client.learn(dir)
}

// connect joins through any endpoint, for as long as it takes; repeats is for
// retry.
func (ms *Membership) connect(ctx context.Context, repeats bool) error {
	start := time.Now()
	err := ms.client.retry(ctx, repeats, func(ctx context.Context) error {
		s, err := ms.client.attempt(ctx, ms.tls, "join", ms.join)
		if err == nil {
			ms.session = s
		}
		return err
	})
	if err != nil {
		return err
	}
	ms.joined = time.Now()
	ms.log.Info(fmt.Sprintf("joined through %s after %s", ms.session.endpoint, ms.joined.Sub(start).Round(time.Millisecond)))
	ms.news(ctx)
	return nil
}

func (ms *Membership) join(ctx context.Context, s *session) error {
	resp, err := clusterv1connect.NewMembershipServiceClient(s.http, baseURL, options()).Join(ctx, &clusterv1.JoinRequest{
		BootId:              ms.member.BootID,
		BuildId:             ms.member.BuildID,
		ConfigGeneration:    ms.member.ConfigGeneration,
		DirectoryGeneration: ms.generation,
		ServicesGeneration:  ms.member.Services(),
		Status:              ms.member.Status(),
	})
	if err != nil {
		return err
	}
	ms.told(resp.GetClusterTime(), resp.GetHeartbeatInterval())
	ms.offered = cmp.Or(resp.GetDirectory(), new(clusterv1.SignedDirectory)) // none is an empty one here
	ms.services = resp.GetServices()
	return nil
}

func (ms *Membership) beat(ctx context.Context, s *session) error {
	resp, err := clusterv1connect.NewMembershipServiceClient(s.http, baseURL, options()).Heartbeat(ctx, &clusterv1.HeartbeatRequest{
		BootId:              ms.member.BootID,
		DirectoryGeneration: ms.generation,
		ServicesGeneration:  ms.member.Services(),
		Status:              ms.member.Status(),
	})
	if err != nil {
		return err
	}
	ms.told(resp.GetClusterTime(), resp.GetHeartbeatInterval())
	ms.offered, ms.services = resp.GetDirectory(), resp.GetServices()
	return nil
}

// Run keeps the membership alive: a heartbeat at the interval that the
// controller asks for and after each Kick, and on a failure a new Join through
// any endpoint. Errors: *Refused (the node was removed), or ctx's.
func (ms *Membership) Run(ctx context.Context) error {
	defer func() { ms.session.close() }()
	for {
		err := ms.beats(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isRefused(err) {
			return err
		}
		ms.client.judge(ms.session.endpoint, err)
		ms.log.Warn(fmt.Sprintf("lost controller %s: %s; joining again", ms.session.endpoint, cause(err)))
		ms.session.close()
		if time.Since(ms.joined) >= stable {
			ms.client.retries.reset()
		}
		if err := ms.connect(ctx, true); err != nil {
			return err
		}
	}
}

// beats sends heartbeats until one fails.
func (ms *Membership) beats(ctx context.Context) error {
	for {
		if err := ms.pause(ctx); err != nil {
			return err
		}
		if err := ms.session.call(ctx, "heartbeat", ms.beat); err != nil {
			return err
		}
		ms.news(ctx)
	}
}

// pause waits for the next heartbeat. Up to a tenth of the interval is taken
// off at random, so that nodes that joined together do not stay together.
func (ms *Membership) pause(ctx context.Context) error {
	if err := sleep(ctx, kickGap); err != nil {
		return err
	}
	jitter := time.Duration(ms.client.retries.int64n(int64(ms.interval / 10)))
	t := time.NewTimer(ms.interval - jitter - kickGap)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ms.kick:
	case <-t.C:
	}
	return nil
}

// Kick asks for a heartbeat now, because the status changed. It never blocks.
func (ms *Membership) Kick() {
	select {
	case ms.kick <- struct{}{}:
	default:
	}
}

// ClusterTime is the cluster's time now, carried on from the last answer by
// the monotonic clock; zero when the controller never said.
func (ms *Membership) ClusterTime() time.Time {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.time.IsZero() {
		return time.Time{}
	}
	return ms.time.Add(time.Since(ms.at))
}

func (ms *Membership) told(now *timestamppb.Timestamp, interval *durationpb.Duration) {
	ms.interval = defaultInterval
	if d := interval.AsDuration(); d > 0 {
		ms.interval = min(max(d, minInterval), maxInterval)
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if t := clusterTime(now); !t.IsZero() {
		ms.time, ms.at = t, time.Now()
	}
}

// news hands on what the last answer brought.
func (ms *Membership) news(ctx context.Context) {
	ms.directory(ctx)
	if ms.services != nil {
		ms.member.KeepServices(ctx, ms.services)
		ms.Kick() // the controller is to hear what came of them
	}
}

// directory takes an offered directory over, and says of a bad one what is
// wrong while the last good one stays. It is no part of the call, since the
// caller may need a TPM and a disk to keep it.
func (ms *Membership) directory(ctx context.Context) {
	if ms.offered == nil {
		return
	}
	err := ms.takeDirectory(ctx, ms.offered)
	if err == nil {
		ms.complaint = ""
	} else if text := err.Error(); text != ms.complaint {
		ms.complaint = text
		ms.log.Warn(fmt.Sprintf("directory not taken over, keeping generation %d", ms.generation), "err", err)
	}
}

func (ms *Membership) takeDirectory(ctx context.Context, signed *clusterv1.SignedDirectory) error {
	dir, err := identity.VerifyDirectory(signed, ms.member.CA)
	if err != nil {
		return err
	}
	if dir.GetGeneration() <= ms.generation {
		return nil
	}
	ms.client.learn(dir)
	if err := ms.member.KeepDirectory(ctx, signed); err != nil {
		return fmt.Errorf("keep directory of generation %d: %w", dir.GetGeneration(), err)
	}
	ms.generation = dir.GetGeneration()
	ms.log.Info(fmt.Sprintf("directory generation %d: %d controllers", ms.generation, len(dir.GetControllers())))
	return nil
}

func clusterTime(t *timestamppb.Timestamp) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

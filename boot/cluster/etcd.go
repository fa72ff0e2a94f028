package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// backend is a running etcd: our own or somebody else's.
type backend struct {
	client *clientv3.Client
	failed <-chan error // our own etcd stopped by itself; nil for an external one
	close  func()
}

// lockData keeps a second controller out of the directory. The kernel drops
// the lock when the process dies, so kill -9 leaves nothing to clean up.
func lockData(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data directory %s: another controller runs on it; stop it or give another --data", dir)
		}
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return f, nil
}

// startEtcd runs a one-member etcd in this process. It listens nowhere: the
// client calls the server directly, so no other process can read the store.
func startEtcd(ctx context.Context, dir string, log *slog.Logger) (*backend, error) {
	logger, closeLog, err := etcdLogger(filepath.Join(dir, "etcd.log"), log)
	if err != nil {
		return nil, err
	}
	e, err := embed.StartEtcd(etcdConfig(filepath.Join(dir, "etcd"), logger))
	if err != nil {
		closeLog()
		return nil, fmt.Errorf("start embedded etcd in %s: %w", dir, err)
	}
	stop := func() { e.Close(); closeLog() }
	select {
	case <-e.Server.ReadyNotify():
	case <-e.Server.StopNotify():
		stop()
		return nil, fmt.Errorf("start embedded etcd in %s: it stopped, see etcd.log there", dir)
	case <-ctx.Done():
		stop()
		return nil, fmt.Errorf("start embedded etcd in %s: %w", dir, ctx.Err())
	}
	client := v3client.New(e.Server)
	return &backend{client: client, failed: watchEtcd(e, dir), close: func() {
		_ = client.Close()
		boundedly(stop)
	}}, nil
}

func etcdConfig(dir string, logger *zap.Logger) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "controller"
	cfg.Dir = dir
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	// Names in the member list, dialled by nobody.
	nowhere := []url.URL{{Scheme: "http", Host: "localhost:1"}}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = nowhere, nowhere
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// Heartbeats overwrite the same keys: history is of no use to us.
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "10m"
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return cfg
}

// watchEtcd reports that etcd stopped though nobody closed it.
func watchEtcd(e *embed.Etcd, dir string) <-chan error {
	failed := make(chan error, 1)
	go func() {
		<-e.Server.StopNotify()
		failed <- fmt.Errorf("run embedded etcd: it stopped, see %s", filepath.Join(dir, "etcd.log"))
	}()
	return failed
}

// A start with a log beyond this begins a new one and keeps the old as .old.
const maxEtcdLog = 8 << 20

// etcdLogger writes warnings and worse to path. What etcd will end the whole
// process for is also said on our log, or it would end silently.
func etcdLogger(path string, log *slog.Logger) (*zap.Logger, func(), error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxEtcdLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, nil, fmt.Errorf("rotate etcd log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open etcd log: %w", err)
	}
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.Lock(f), zapcore.WarnLevel)
	last := zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.DPanicLevel {
			log.Error("embedded etcd ends this controller", "cause", e.Message, "log", path)
		}
		return nil
	})
	return zap.New(core, last), func() { _ = f.Close() }, nil
}

// External is an etcd cluster that others run.
type External struct {
	Endpoints             []string // host:port or http(s) URLs
	CAFile, Cert, KeyFile string   // PEM files; empty: none
}

func dialEtcd(ext External) (*backend, error) {
	cfg := clientv3.Config{
		Endpoints:            ext.Endpoints,
		DialTimeout:          storeTimeout,
		DialKeepAliveTime:    10 * time.Second, // notices a dead server before the next heartbeats pile up
		DialKeepAliveTimeout: storeTimeout,
		Logger:               zap.NewNop(), // every call's error reaches us anyway
	}
	files := transport.TLSInfo{TrustedCAFile: ext.CAFile, CertFile: ext.Cert, KeyFile: ext.KeyFile}
	if ext.CAFile != "" || ext.Cert != "" {
		tlsConfig, err := files.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read etcd client certificate: %w", err)
		}
		cfg.TLS = tlsConfig
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("open etcd client: %w", err)
	}
	return &backend{client: client, close: func() { boundedly(func() { _ = client.Close() }) }}, nil
}

// Longer than etcd needs to stop; past it the process may as well exit, the
// write-ahead log is made for that.
const closeTimeout = 5 * time.Second

// boundedly runs stop, but does not wait for it beyond closeTimeout.
func boundedly(stop func()) {
	done := make(chan struct{})
	go func() { stop(); close(done) }()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

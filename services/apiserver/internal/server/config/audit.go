package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// Kubernetes' defaults for the audit log.
const (
	DefaultAuditMode    = string(audit.ModeBlocking)
	DefaultAuditSize    = 100
	DefaultAuditAge     = 366
	DefaultAuditBackups = 100
)

// Audit configures which requests the audit log records, and where it is written. Nothing is
// recorded unless both PolicyFile and LogPath are set.
type Audit struct {
	// PolicyFile is a file of kind Policy in audit.k8s.io/v1.
	PolicyFile string
	// LogPath is the file of events, one JSON object per line; "-" for standard output.
	LogPath string
	// MaxSize is the size in megabytes at which the file is rotated; 0 for never.
	MaxSize int
	// MaxAge is for how many days rotated files are kept; 0 for ever.
	MaxAge int
	// MaxBackups is how many rotated files are kept; 0 for all.
	MaxBackups int
	// Mode is how requests wait for their events to be written: "blocking", "batch" or
	// "blocking-strict"; DefaultAuditMode if empty.
	Mode string

	policy *audit.Policy // read from PolicyFile by load
}

// complete sets defaults and returns everything that is wrong.
func (a *Audit) complete() error {
	var errs []error
	if a.Mode == "" {
		a.Mode = DefaultAuditMode
	}
	if !slices.Contains(audit.Modes(), audit.Mode(a.Mode)) {
		errs = append(errs, fmt.Errorf("invalid audit log mode %s, allowed modes are %q", a.Mode, audit.Modes()))
	}
	for name, number := range map[string]int{"maxsize": a.MaxSize, "maxage": a.MaxAge, "maxbackup": a.MaxBackups} {
		if number < 0 {
			errs = append(errs, fmt.Errorf("audit-log-%s %d can't be a negative number", name, number))
		}
	}
	return errors.Join(errs...)
}

// load reads the policy file, if one is set.
func (a *Audit) load() (err error) {
	if a.PolicyFile != "" {
		a.policy, err = audit.LoadPolicy(a.PolicyFile)
	}
	return err
}

// NewAuditor returns the writer of the audit log, or nil if nothing is to be recorded.
func (c *Config) NewAuditor() *audit.Auditor {
	cfg := c.Audit
	switch {
	case cfg.policy == nil && cfg.LogPath == "":
		return nil
	case cfg.policy == nil:
		c.Logger.Warn("no audit policy file is set, so nothing is written to the audit log", "path", cfg.LogPath)
		return nil
	case cfg.LogPath == "":
		c.Logger.Warn("no audit log is set, so the audit policy has no effect", "policy", cfg.PolicyFile)
		return nil
	}
	return audit.New(audit.Config{
		Policy: cfg.policy, Mode: audit.Mode(cfg.Mode), Logger: c.Logger, Registerer: c.Registerer,
		File: audit.File{
			Path: cfg.LogPath, MaxSize: int64(cfg.MaxSize) << 20, MaxAge: time.Duration(cfg.MaxAge) * 24 * time.Hour, MaxBackups: cfg.MaxBackups,
		},
	})
}

package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// Kubernetes' defaults: how many requests are in work at a time, and how audit logs are kept.
const (
	DefaultMaxReads     = 400
	DefaultMaxWrites    = 200
	DefaultAuditMode    = string(audit.ModeBlocking)
	DefaultAuditSize    = 100
	DefaultAuditAge     = 366
	DefaultAuditBackups = 100
)

// Audit says what requests are written down, and where. Nothing is unless both PolicyFile and
// LogPath are set.
type Audit struct {
	// PolicyFile is a file of kind Policy in audit.k8s.io/v1.
	PolicyFile string
	// LogPath is the file of events, one JSON object a line; "-" for the standard output.
	LogPath string
	// MaxSize is the size in megabytes at which the file is put aside; 0 for never.
	MaxSize int
	// MaxAge is for how many days files that were put aside are kept; 0 for ever.
	MaxAge int
	// MaxBackups is how many of them are kept; 0 for all.
	MaxBackups int
	// Mode is how requests wait for their events to be written: "blocking", "batch" or
	// "blocking-strict"; DefaultAuditMode if empty.
	Mode string

	policy *audit.Policy // what load read from PolicyFile
}

// complete fills in defaults and names what is wrong.
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

// load reads the policy, if there is one.
func (a *Audit) load() (err error) {
	if a.PolicyFile != "" {
		a.policy, err = audit.LoadPolicy(a.PolicyFile)
	}
	return err
}

// auditor makes what writes the audit log; nil if nothing is to be written.
func (p *plane) newAuditor() *audit.Auditor {
	cfg := p.cfg.Audit
	switch {
	case cfg.policy == nil && cfg.LogPath == "":
		return nil
	case cfg.policy == nil:
		p.cfg.Logger.Warn("No audit policy file is set, so that nothing is written to the audit log", "path", cfg.LogPath)
		return nil
	case cfg.LogPath == "":
		p.cfg.Logger.Warn("No audit log is set, so that the audit policy has no effect", "policy", cfg.PolicyFile)
		return nil
	}
	return audit.New(audit.Config{
		Policy: cfg.policy, Mode: audit.Mode(cfg.Mode), Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
		File: audit.File{
			Path: cfg.LogPath, MaxSize: int64(cfg.MaxSize) << 20, MaxAge: time.Duration(cfg.MaxAge) * 24 * time.Hour, MaxBackups: cfg.MaxBackups,
		},
	})
}

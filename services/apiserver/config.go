package apiserver

import (
	"github.com/garboard/garboard/services/apiserver/internal/admission/plugins"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
)

// Config configures an apiserver, and the other types parts of it.
type (
	Config         = config.Config
	Serving        = config.Serving
	Limits         = config.Limits
	Admission      = config.Admission
	Enablement     = config.Enablement
	Etcd           = config.Etcd
	Bus            = config.Bus
	Authentication = config.Authentication
	FrontProxy     = config.FrontProxy
	Audit          = config.Audit
	LogConfig      = config.Log
	WindowConfig   = config.Window
)

// Defaults of Config.
const (
	DefaultEtcdPrefix             = config.DefaultEtcdPrefix
	DefaultServiceCIDR            = config.DefaultServiceCIDR
	DefaultEtcdCompactionInterval = config.DefaultEtcdCompactionInterval
	DefaultEventTTL               = config.DefaultEventTTL
	DefaultBusLife                = config.DefaultBusLife
	DefaultBusNodeLife            = config.DefaultBusNodeLife
	DefaultRequestTimeout         = config.DefaultRequestTimeout
	DefaultIssuer                 = config.DefaultIssuer
	DefaultMaxReads               = config.DefaultMaxReads
	DefaultMaxWrites              = config.DefaultMaxWrites
	DefaultMaxSessions            = config.DefaultMaxSessions
	DefaultAuditMode              = config.DefaultAuditMode
	DefaultAuditSize              = config.DefaultAuditSize
	DefaultAuditAge               = config.DefaultAuditAge
	DefaultAuditBackups           = config.DefaultAuditBackups
	DefaultLogReplicas            = config.DefaultLogReplicas
	DefaultLogMaxAge              = config.DefaultLogMaxAge
	DefaultLogMaxBytes            = config.DefaultLogMaxBytes
	DefaultWindowEvents           = config.DefaultWindowEvents
	DefaultWindowBytes            = config.DefaultWindowBytes
)

// AdmissionPlugins returns the names of all admission plugins, in the order in which they run.
func AdmissionPlugins() []string { return plugins.Names() }

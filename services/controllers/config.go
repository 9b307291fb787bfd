package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/controllers/internal/attachdetach"
	"github.com/garboard/garboard/services/controllers/internal/csrsigner"
	"github.com/garboard/garboard/services/controllers/internal/legacytokencleaner"
	"github.com/garboard/garboard/services/controllers/internal/localpath"
	"github.com/garboard/garboard/services/controllers/internal/nodeipam"
)

// DefaultSigningDuration is the validity of signed certificates when Config sets none.
const DefaultSigningDuration = csrsigner.DefaultDuration

// DefaultUnusedTokenPeriod is the period when Config sets none.
const DefaultUnusedTokenPeriod = legacytokencleaner.DefaultPeriod

// DefaultAttachSyncPeriod is how often attached volumes are compared with their VolumeAttachments when Config
// does not say.
const DefaultAttachSyncPeriod = attachdetach.DefaultSyncPeriod

// DefaultLocalPathClass is the usual name of the StorageClass of local-path volumes.
const DefaultLocalPathClass = localpath.DefaultClass

// LocalPathClassUsage describes the flag of Config.LocalPathClass.
const LocalPathClassUsage = "StorageClass of local-path volumes, created as the default class if there is none of that name; when empty, none is created"

// DefaultLeaseName is Kubernetes' own, so that a kube-controller-manager on the same cluster and this
// service never both act.
const DefaultLeaseName = "kube-controller-manager"

// Config configures one replica of the controllers.
type Config struct {
	// Service is what all services have. Its API and Bus are required.
	Service service.Config
	// Controllers are the controllers that run: "*" stands for all, "name" for one, "-name" for none of
	// that name; all when empty. Replicas with different lists need different LeaseNames.
	Controllers []string
	// LeaseName is the Lease in kube-system by which one replica leads; DefaultLeaseName when empty.
	LeaseName string
	// RootCA is the PEM certificate that is published to every namespace; API's if empty.
	RootCA []byte
	// SigningCertFile and SigningKeyFile are PEM files of the authority that signs approved
	// CertificateSigningRequests. They are read again when they change; without them no request is
	// signed.
	SigningCertFile, SigningKeyFile string
	// SigningDuration is the longest validity of a signed certificate; DefaultSigningDuration when
	// 0.
	SigningDuration time.Duration
	// TokenKeyFile is the PEM file of the private key, RSA or ECDSA, that signs the service account tokens
	// in Secrets; its signatures must be ones that the apiservers accept. It is read at the start; without
	// it such Secrets stay empty.
	TokenKeyFile string
	// UnusedTokenPeriod is how long nobody may have used a service account token that Kubernetes created
	// by itself until it is refused, and after that until it is deleted; a year when 0.
	UnusedTokenPeriod time.Duration
	// NodeLifecycle says when a silent node counts as lost, and how fast lost nodes are given up;
	// DefaultNodeLifecycle when unset.
	NodeLifecycle NodeLifecycle
	// LocalPathClass is the name of the StorageClass of local-path volumes, which is created if there is
	// none of that name; none is created when empty.
	LocalPathClass string
	// NodeIPAM says which ranges of pods nodes get; none when unset.
	NodeIPAM nodeipam.Options
	// AttachDetach says how volumes are attached to nodes; its SyncPeriod is a minute when 0.
	AttachDetach attachdetach.Options
	// Autoscaling are the settings of the controller of HorizontalPodAutoscalers; DefaultAutoscaling when
	// unset.
	Autoscaling Autoscaling
	// MetricsServer is where that controller asks for metrics; the plane's API when unset.
	MetricsServer MetricsServer
	// Election sets how fast another replica takes over from one that is gone. Unset fields take
	// Kubernetes' defaults.
	Election election.Timing
}

// readPause is how often changes are read while there are few at a time. A key rests up to twice as long after each
// reconcile, so that controllers lose little by it, and waking up for each change costs them half of their CPU. There
// is no such pause where NATS carries the calls to the apiserver too: each answer would wait for it.
const readPause = 50 * time.Millisecond

// callPause is how often answers of the apiserver are read while there are few at a time. Controllers have many calls
// at a time: each is 5 ms slower at most, and 10,000 of them cost a fifth less CPU.
const callPause = 5 * time.Millisecond

// complete sets defaults and returns everything that is wrong. It does no I/O; see load.
func (c *Config) complete() error {
	faults := []error{c.Service.Complete(), c.Service.Reachable()}
	c.LeaseName = cmp.Or(c.LeaseName, DefaultLeaseName)
	if by := c.Service.Transport; by == "" || by == client.TransportHTTP {
		c.Service.Bus.ReadPause = cmp.Or(c.Service.Bus.ReadPause, readPause)
		c.Service.CallPause = cmp.Or(c.Service.CallPause, callPause)
	}
	faults = append(faults, Check(c.Controllers), c.checkLease())
	if len(c.Controllers) == 0 {
		c.Controllers = []string{all}
	}
	if c.NodeLifecycle == (NodeLifecycle{}) {
		c.NodeLifecycle = DefaultNodeLifecycle()
	}
	if c.UnusedTokenPeriod == 0 {
		c.UnusedTokenPeriod = legacytokencleaner.DefaultPeriod
	}
	c.AttachDetach.SyncPeriod = cmp.Or(c.AttachDetach.SyncPeriod, attachdetach.DefaultSyncPeriod)
	if c.SigningDuration == 0 {
		c.SigningDuration = DefaultSigningDuration
	}
	if api := c.Service.API; api != nil && len(c.RootCA) == 0 {
		// A certificate in a file is read by load.
		if c.RootCA = api.CAData; len(c.RootCA) == 0 && api.CAFile == "" {
			faults = append(faults, errors.New("no certificate of the apiserver's authority is set to publish to namespaces"))
		}
	}
	if _, err := c.Election.Complete(); err != nil {
		faults = append(faults, err)
	}
	if (c.SigningCertFile == "") != (c.SigningKeyFile == "") {
		faults = append(faults, errors.New("--cluster-signing-cert-file and --cluster-signing-key-file must be set together"))
	}
	if c.SigningDuration < csrsigner.MinDuration {
		faults = append(faults, fmt.Errorf("--cluster-signing-duration is %v, must be at least %v", c.SigningDuration, csrsigner.MinDuration))
	}
	if c.UnusedTokenPeriod < 0 {
		faults = append(faults, fmt.Errorf("--legacy-service-account-token-clean-up-period is %v, must be positive", c.UnusedTokenPeriod))
	}
	if problems := validation.IsDNS1123Subdomain(c.LocalPathClass); c.LocalPathClass != "" && len(problems) > 0 {
		faults = append(faults, fmt.Errorf("--local-path-storage-class is %q: %s", c.LocalPathClass, strings.Join(problems, "; ")))
	}
	faults = append(faults, c.NodeIPAM.Check(), c.NodeLifecycle.Check())
	faults = append(faults, c.AttachDetach.Check(), c.Autoscaling.Check(), c.MetricsServer.Check())
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the controllers: %w", err)
	}
	return nil
}

// checkLease returns an error if the Lease's name is invalid.
func (c *Config) checkLease() error {
	if faults := validation.IsDNS1123Subdomain(c.LeaseName); len(faults) > 0 {
		return fmt.Errorf("--leader-elect-resource-name is %q: %s", c.LeaseName, strings.Join(faults, "; "))
	}
	return nil
}

// load reads the authority's certificate, if it is configured by its file.
func (c *Config) load(context.Context) (err error) {
	if len(c.RootCA) > 0 {
		return nil
	}
	if c.RootCA, err = os.ReadFile(c.Service.API.CAFile); err != nil {
		return fmt.Errorf("reading the certificate of the apiserver's authority: %w", err)
	}
	return nil
}

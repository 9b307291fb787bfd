package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/attachdetach"
	"github.com/garboard/garboard/services/controllers/internal/bootstrapsigner"
	"github.com/garboard/garboard/services/controllers/internal/clusterroleaggregation"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/cronjob"
	"github.com/garboard/garboard/services/controllers/internal/csrapprover"
	"github.com/garboard/garboard/services/controllers/internal/csrcleaner"
	"github.com/garboard/garboard/services/controllers/internal/csrsigner"
	"github.com/garboard/garboard/services/controllers/internal/daemonset"
	"github.com/garboard/garboard/services/controllers/internal/deployment"
	"github.com/garboard/garboard/services/controllers/internal/devicetainteviction"
	"github.com/garboard/garboard/services/controllers/internal/disruption"
	"github.com/garboard/garboard/services/controllers/internal/endpoints"
	"github.com/garboard/garboard/services/controllers/internal/endpointslice"
	"github.com/garboard/garboard/services/controllers/internal/endpointslicemirroring"
	"github.com/garboard/garboard/services/controllers/internal/ephemeralvolume"
	"github.com/garboard/garboard/services/controllers/internal/garbage"
	"github.com/garboard/garboard/services/controllers/internal/job"
	"github.com/garboard/garboard/services/controllers/internal/legacytokencleaner"
	"github.com/garboard/garboard/services/controllers/internal/localpath"
	"github.com/garboard/garboard/services/controllers/internal/namespace"
	"github.com/garboard/garboard/services/controllers/internal/nodeipam"
	"github.com/garboard/garboard/services/controllers/internal/nodelifecycle"
	"github.com/garboard/garboard/services/controllers/internal/persistentvolumebinder"
	"github.com/garboard/garboard/services/controllers/internal/podcertificaterequestcleaner"
	"github.com/garboard/garboard/services/controllers/internal/podgc"
	"github.com/garboard/garboard/services/controllers/internal/replicaset"
	"github.com/garboard/garboard/services/controllers/internal/resourceclaim"
	"github.com/garboard/garboard/services/controllers/internal/resourcequota"
	"github.com/garboard/garboard/services/controllers/internal/rootca"
	"github.com/garboard/garboard/services/controllers/internal/serviceaccount"
	"github.com/garboard/garboard/services/controllers/internal/serviceaccounttoken"
	"github.com/garboard/garboard/services/controllers/internal/servicecidrs"
	"github.com/garboard/garboard/services/controllers/internal/servingtrustbundle"
	"github.com/garboard/garboard/services/controllers/internal/statefulset"
	"github.com/garboard/garboard/services/controllers/internal/storageprotection"
	"github.com/garboard/garboard/services/controllers/internal/storageversionmigrator"
	"github.com/garboard/garboard/services/controllers/internal/tainteviction"
	"github.com/garboard/garboard/services/controllers/internal/tokencleaner"
	"github.com/garboard/garboard/services/controllers/internal/ttl"
	"github.com/garboard/garboard/services/controllers/internal/ttlafterfinished"
	"github.com/garboard/garboard/services/controllers/internal/validatingpolicystatus"
	"github.com/garboard/garboard/services/controllers/internal/volumeexpand"
)

// runner is one of the controllers. Run may be called once per term of leadership.
type runner interface {
	Run(ctx context.Context) error
}

// entry is a controller's name in Kubernetes and its constructor. It returns nil for a controller that
// cannot run as configured, which it logs.
type entry struct {
	name  string
	build func() (runner, error)
}

// table lists all controllers. It constructs none of them.
func (s *Service) table(d controller.Deps, source informer.Source) []entry {
	checked := func(spec *controller.Spec, err error) (runner, error) {
		if spec == nil || err != nil {
			return nil, err
		}
		return controller.NewRunner(d, spec)
	}
	declared := func(declare func(controller.Deps) *controller.Spec) func() (runner, error) {
		return func() (runner, error) { return checked(declare(d), nil) }
	}
	return []entry{
		{"garbage-collector-controller", func() (runner, error) {
			s.collector = garbage.New(d, s.definitions, s.aggregated, source)
			return s.collector, nil
		}},
		{"certificatesigningrequest-signing-controller", func() (runner, error) { return checked(s.signer(d)) }},
		{"deployment-controller", declared(deployment.New)},
		{"replicaset-controller", declared(replicaset.New)},
		{"replicationcontroller-controller", declared(replicaset.NewReplication)},
		{"namespace-controller", func() (runner, error) { return checked(namespace.New(d, s.definitions, s.aggregated), nil) }},
		{"serviceaccount-controller", declared(serviceaccount.New)},
		{"root-ca-certificate-publisher-controller", func() (runner, error) { return checked(rootca.New(d, s.cfg.RootCA)) }},
		{"node-lifecycle-controller", func() (runner, error) { return checked(nodelifecycle.New(d, s.cfg.NodeLifecycle), nil) }},
		{"taint-eviction-controller", declared(tainteviction.New)},
		{"device-taint-eviction-controller", declared(devicetainteviction.New)},
		{"resourceclaim-controller", declared(resourceclaim.New)},
		{"resourcequota-controller", func() (runner, error) { return checked(resourcequota.New(d, source), nil) }},
		{"disruption-controller", declared(disruption.New)},
		{"clusterrole-aggregation-controller", declared(clusterroleaggregation.New)},
		{"token-cleaner-controller", declared(tokencleaner.New)},
		{"bootstrap-signer-controller", declared(bootstrapsigner.New)},
		{"certificatesigningrequest-approving-controller", declared(csrapprover.New)},
		{"certificatesigningrequest-cleaner-controller", declared(csrcleaner.New)},
		{"service-cidr-controller", declared(servicecidrs.New)},
		{"persistentvolume-binder-controller", declared(persistentvolumebinder.New)},
		{"persistentvolume-attach-detach-controller", func() (runner, error) { return checked(attachdetach.New(d, s.cfg.AttachDetach), nil) }},
		{"persistentvolume-expander-controller", declared(volumeexpand.New)},
		{"persistentvolumeclaim-protection-controller", declared(storageprotection.NewClaims)},
		{"persistentvolume-protection-controller", declared(storageprotection.NewVolumes)},
		{"volumeattributesclass-protection-controller", declared(storageprotection.NewClasses)},
		{"ephemeral-volume-controller", declared(ephemeralvolume.New)},
		{"validatingadmissionpolicy-status-controller", func() (runner, error) { return checked(validatingpolicystatus.New(d, s.definitions), nil) }},
		{"storage-version-migrator-controller", declared(storageversionmigrator.New)},
		{"endpointslice-controller", declared(endpointslice.New)},
		{"endpoints-controller", declared(endpoints.New)},
		{"endpointslice-mirroring-controller", declared(endpointslicemirroring.New)},
		{"node-ipam-controller", func() (runner, error) { return s.podRanges(d) }},
		{"ttl-controller", declared(ttl.New)},
		{"job-controller", declared(job.New)},
		{"cronjob-controller", declared(cronjob.New)},
		{"ttl-after-finished-controller", declared(ttlafterfinished.New)},
		{"pod-garbage-collector-controller", declared(podgc.New)},
		{"statefulset-controller", declared(statefulset.New)},
		{"local-path-provisioner", func() (runner, error) { return checked(localpath.New(d, s.cfg.LocalPathClass), nil) }},
		{"daemonset-controller", declared(daemonset.New)},
		{"serviceaccount-token-controller", func() (runner, error) { return checked(s.tokens(d)) }},
		{"legacy-serviceaccount-token-cleaner-controller", func() (runner, error) {
			return checked(legacytokencleaner.New(d, s.cfg.UnusedTokenPeriod), nil)
		}},
		{"kube-apiserver-serving-clustertrustbundle-publisher-controller", func() (runner, error) {
			return checked(servingtrustbundle.New(d, s.cfg.RootCA))
		}},
		{"podcertificaterequest-cleaner-controller", declared(podcertificaterequestcleaner.New)},
		{"horizontal-pod-autoscaler-controller", func() (runner, error) { return checked(s.autoscaler(d)) }},
	}
}

// signer returns the controller that signs certificates; nil without an authority.
func (s *Service) signer(d controller.Deps) (*controller.Spec, error) {
	if s.cfg.SigningCertFile == "" {
		d.Logger.Warn("certificate requests will not be signed because no authority is set: " +
			"nodes cannot join with a bootstrap token (set --cluster-signing-cert-file and --cluster-signing-key-file)")
		return nil, nil
	}
	authority, err := csrsigner.NewAuthority(s.cfg.SigningCertFile, s.cfg.SigningKeyFile, d.Logger)
	if err != nil {
		return nil, err
	}
	return csrsigner.New(d, authority, s.cfg.SigningDuration), nil
}

// tokens returns the controller that writes tokens into Secrets; nil without a key.
func (s *Service) tokens(d controller.Deps) (*controller.Spec, error) {
	if s.cfg.TokenKeyFile == "" {
		d.Logger.Info("a controller is disabled because there is no private key (set --service-account-private-key-file)",
			"controller", "serviceaccount-token-controller")
		return nil, nil
	}
	signer, err := serviceaccounttoken.NewSigner(s.cfg.TokenKeyFile)
	if err != nil {
		return nil, err
	}
	return serviceaccounttoken.New(d, signer, s.cfg.RootCA), nil
}

// podRanges returns the controller that gives nodes ranges of pods; nil unless it is turned on.
func (s *Service) podRanges(d controller.Deps) (runner, error) {
	if !s.cfg.NodeIPAM.Allocate {
		return nil, nil
	}
	spec, err := nodeipam.New(d, s.cfg.NodeIPAM)
	if err != nil {
		return nil, err
	}
	return controller.NewRunner(d, spec)
}

// Names returns the Kubernetes names of all controllers, sorted. The certificate signer, the controller of
// tokens in Secrets and the node IPAM controller are included, though they run only if they are configured.
func Names() []string {
	names := map[string]bool{}
	for _, entry := range new(Service).table(controller.Deps{}, nil) {
		names[entry.name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// ListUsage describes a list of controllers to whoever writes one on the command line.
func ListUsage() string {
	return "controllers to run: * stands for all, name for one, -name for none of that name; known are " + strings.Join(Names(), ", ")
}

// all stands for all controllers in a list of controllers.
const all = "*"

// enabled reports whether a list of controllers has one: by its name or by "*", unless "-name" comes
// first (kube-controller-manager, --controllers).
func enabled(name string, list []string) bool {
	for _, item := range list {
		switch item {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(list, all)
}

// Check returns an error if a list of controllers, as in Config, names an unknown one or enables none.
func Check(list []string) error {
	if len(list) == 0 {
		return nil
	}
	names := Names()
	for _, item := range list {
		if name := strings.TrimPrefix(item, "-"); item != all && !slices.Contains(names, name) {
			return fmt.Errorf("--controllers: %q is not in the list of known controllers: %s", name, strings.Join(names, ", "))
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return enabled(name, list) }) {
		return fmt.Errorf("--controllers: %q enables no controller", strings.Join(list, ","))
	}
	return nil
}

package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/attributes"
	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// Config configures a plugin. Objects and Kinds are required.
type Config struct {
	// Objects has the configurations of webhooks, and the Services and EndpointSlices by which they are
	// reached.
	Objects admission.Objects
	// Kinds defaults and converts objects.
	Kinds admission.Kinds
	// Authorizer answers match conditions that ask what the user may do; nil for none.
	Authorizer authz.Authorizer
	// Document is the plugin's configuration, of kind WebhookAdmissionConfiguration; it may be empty.
	Document []byte
	// Logger receives failed calls; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
	// Proxy returns the proxy for calls by URL; that of the environment if nil.
	Proxy func(*http.Request) (*url.URL, error)
}

// step is what the two plugins do differently.
type step struct {
	mutates bool
	// call and condition are the labels of metrics about calls and match conditions.
	call, condition string
}

// plugin is what the two plugins share.
type plugin struct {
	cfg        Config
	step       step
	log        *slog.Logger
	metrics    *metrics
	clients    *webhook.Clients
	compiler   cel.ConditionCompiler
	authorizer authorizer.UnconditionalAuthorizer
}

// Mutating returns the plugin MutatingAdmissionWebhook.
func Mutating(cfg Config) (admission.Plugin, error) {
	p, err := newPlugin(cfg, step{mutates: true, call: "admit", condition: "admit"})
	if err != nil {
		return admission.Plugin{}, err
	}
	known := &configurations[*registrationv1.MutatingWebhookConfiguration]{
		objects: cfg.Objects, hooksOf: mutatingHooks, clients: p.clients,
	}
	return admission.Plugin{Mutate: func(ctx context.Context, req *admission.Request) error {
		if exempt(req) {
			return nil
		}
		hooks, err := known.hooks(ctx)
		if err != nil || len(hooks) == 0 {
			return err
		}
		return p.mutate(ctx, req, hooks)
	}, Close: p.clients.Close}, nil
}

// Validating returns the plugin ValidatingAdmissionWebhook.
func Validating(cfg Config) (admission.Plugin, error) {
	p, err := newPlugin(cfg, step{call: "validating", condition: "validate"})
	if err != nil {
		return admission.Plugin{}, err
	}
	known := &configurations[*registrationv1.ValidatingWebhookConfiguration]{
		objects: cfg.Objects, hooksOf: validatingHooks, clients: p.clients,
	}
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		if exempt(req) {
			return nil
		}
		hooks, err := known.hooks(ctx)
		if err != nil || len(hooks) == 0 {
			return err
		}
		return p.validate(ctx, req, hooks)
	}, Close: p.clients.Close}, nil
}

func newPlugin(cfg Config, step step) (*plugin, error) {
	if err := checkDocument(cfg.Document); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	documents, versions := runtime.NewScheme(), []schema.GroupVersion{admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion}
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, admissionv1beta1.AddToScheme} {
		if err := add(documents); err != nil {
			return nil, fmt.Errorf("registering the types of admission reviews: %w", err)
		}
	}
	patch.BoundCopies()
	return &plugin{
		cfg: cfg, step: step, log: cfg.Logger, metrics: newMetrics(cfg.Registerer),
		compiler:   cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
		authorizer: attributes.Authorizer{By: cfg.Authorizer},
		clients: webhook.New(webhook.Config{
			Documents: documents, Versions: schema.GroupVersions(versions), UserAgent: "kube-apiserver-admission", Proxy: cfg.Proxy,
			Resolver: webhook.Endpoints{
				Service: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
					return admission.Get[*corev1.Service](ctx, cfg.Objects, namespace, name)
				},
				Slices: func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error) {
					return admission.List[*discoveryv1.EndpointSlice](ctx, cfg.Objects, namespace)
				},
			},
		}),
	}, nil
}

// document is a WebhookAdmissionConfiguration.
type document struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	KubeConfigFile     string `json:"kubeConfigFile"`
	StaticManifestsDir string `json:"staticManifestsDir"`
}

// checkDocument returns an error if a plugin's configuration asks for what is not here.
func checkDocument(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var d document
	err := configuration.DecodeKind(data, &d, "WebhookAdmissionConfiguration", "apiserver.config.k8s.io/v1")
	if err != nil {
		if configuration.DecodeKind(data, &d, "WebhookAdmission", "apiserver.config.k8s.io/v1alpha1") != nil {
			return fmt.Errorf("reading the configuration of admission webhooks: %w", err)
		}
	}
	switch {
	case d.KubeConfigFile != "":
		return fmt.Errorf("kubeConfigFile %q: credentials for admission webhooks are not here yet; webhooks are called without", d.KubeConfigFile)
	case d.StaticManifestsDir != "":
		return fmt.Errorf("staticManifestsDir %q: webhook configurations in files are not here yet", d.StaticManifestsDir)
	}
	return nil
}

// newRequest returns a request as the webhooks are asked about it.
func newRequest(ctx context.Context, req *admission.Request) *request {
	return &request{Request: req, attributes: attributes.Of(ctx, req), operation: string(attributes.Operation(req.Verb))}
}

package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/attributes"
	"github.com/garboard/garboard/services/apiserver/internal/admission/configuration"
	"github.com/garboard/garboard/services/apiserver/internal/admission/manifests"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

// Config configures a plugin. Objects and Kinds are required.
type Config struct {
	// Objects has the configurations of webhooks, and the Services and EndpointSlices by which they are
	// reached.
	Objects admission.Objects
	// Kinds completes and converts objects.
	Kinds Kinds
	// Authorizer answers match conditions that ask what the user may do; nil for none.
	Authorizer authz.Authorizer
	// Document is the plugin's configuration, of kind WebhookAdmissionConfiguration; it may be empty.
	Document []byte
	// Identity names the apiserver in metrics.
	Identity string
	// Logger receives failed calls; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; nil for none.
	Registerer prometheus.Registerer
	// Dial connects to webhooks; a net.Dialer's if nil.
	Dial webhook.Dial
	// Proxy returns the proxy for calls by URL; that of the environment if nil.
	Proxy func(*http.Request) (*url.URL, error)
}

// Kinds is what the definitions of kinds do with objects.
type Kinds interface {
	// Complete removes from obj fields that its kind does not have, and sets those that a client may omit.
	// An object of a kind that is not stored stays as it is.
	Complete(obj scheme.Object)
	// Convert returns obj as another kind that is stored as the same one. It leaves obj as it is.
	Convert(obj scheme.Object, to *scheme.Kind) (scheme.Object, error)
}

// step is what the two plugins do differently.
type step struct {
	mutates bool
	plugin  string
	// call and condition are the labels of metrics about calls and match conditions.
	call, condition string
}

// plugin is what the two plugins share.
type plugin struct {
	cfg     Config
	step    step
	files   *manifests.Manifests // configurations in files; nil for none
	log     *slog.Logger
	metrics *metrics
	clients *webhook.Clients
	// compiler compiles match conditions. It takes megabytes, and is made for the first ones.
	compiler   func() cel.ConditionCompiler
	authorizer authorizer.UnconditionalAuthorizer
}

// Mutating returns the plugin MutatingAdmissionWebhook.
func Mutating(cfg Config) (admission.Plugin, error) {
	p, err := newPlugin(cfg, step{mutates: true, plugin: "MutatingAdmissionWebhook", call: "admit", condition: "admit"})
	if err != nil {
		return admission.Plugin{}, err
	}
	known := &configurations[*registrationv1.MutatingWebhookConfiguration]{
		objects: cfg.Objects, hooksOf: mutatingHooks, clients: p.clients, metrics: p.metrics, files: p.files,
	}
	return admission.Plugin{Connections: true, Mutate: func(ctx context.Context, req *admission.Request) error {
		hooks, err := asked(ctx, known, req)
		if err != nil || len(hooks) == 0 {
			return err
		}
		return p.mutate(ctx, req, hooks)
	}, Close: p.clients.Close}, nil
}

// Validating returns the plugin ValidatingAdmissionWebhook.
func Validating(cfg Config) (admission.Plugin, error) {
	p, err := newPlugin(cfg, step{plugin: "ValidatingAdmissionWebhook", call: "validating", condition: "validate"})
	if err != nil {
		return admission.Plugin{}, err
	}
	known := &configurations[*registrationv1.ValidatingWebhookConfiguration]{
		objects: cfg.Objects, hooksOf: validatingHooks, clients: p.clients, metrics: p.metrics, files: p.files,
	}
	return admission.Plugin{Connections: true, Validate: func(ctx context.Context, req *admission.Request) error {
		hooks, err := asked(ctx, known, req)
		if err != nil || len(hooks) == 0 {
			return err
		}
		return p.validate(ctx, req, hooks)
	}, Close: p.clients.Close}, nil
}

// asked returns the webhooks that may be asked about a request.
func asked[T scheme.Object](ctx context.Context, known *configurations[T], req *admission.Request) ([]*hook, error) {
	switch {
	case isReview(req):
		return nil, nil
	case configures(req):
		return known.fromFiles(ctx), nil
	}
	return known.hooks(ctx)
}

func newPlugin(cfg Config, step step) (*plugin, error) {
	document, err := readDocument(cfg.Document)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var files *manifests.Manifests
	if document.StaticManifestsDir != "" {
		files, err = manifests.Open(manifests.Config{
			Dir: document.StaticManifestsDir, Plugin: step.plugin, Mutating: step.mutates,
			Identity: cfg.Identity, Logger: cfg.Logger, Registerer: cfg.Registerer,
		})
		if err != nil {
			return nil, err //nolint:wrapcheck // The text is Kubernetes'.
		}
	}
	var credentials *webhook.Credentials
	if document.KubeConfigFile != "" {
		if credentials, err = webhook.ReadCredentials(document.KubeConfigFile); err != nil {
			return nil, err //nolint:wrapcheck // It names the file.
		}
	}
	documents, versions := runtime.NewScheme(), []schema.GroupVersion{admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion}
	for _, add := range []func(*runtime.Scheme) error{admissionv1.AddToScheme, admissionv1beta1.AddToScheme} {
		if err := add(documents); err != nil {
			return nil, fmt.Errorf("registering the types of admission reviews: %w", err)
		}
	}
	patch.BoundCopies()
	return &plugin{
		cfg: cfg, step: step, files: files, log: cfg.Logger, metrics: newMetrics(cfg.Registerer, step),
		compiler: sync.OnceValue(func() cel.ConditionCompiler {
			return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}),
		authorizer: attributes.Authorizer{By: cfg.Authorizer},
		clients: webhook.New(webhook.Config{
			Documents: documents, Versions: schema.GroupVersions(versions), UserAgent: "kube-apiserver-admission", Proxy: cfg.Proxy,
			Credentials: credentials,
			Dial:        cfg.Dial,
			Resolver: endpoints.Services{
				Service: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
					return admission.Get[*corev1.Service](ctx, cfg.Objects, namespace, name)
				},
				Slices: func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error) {
					return admission.List[*discoveryv1.EndpointSlice](ctx, cfg.Objects, namespace)
				},
				Pod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
					return admission.Get[*corev1.Pod](ctx, cfg.Objects, namespace, name)
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

// readDocument returns a plugin's configuration. The files that it names need not exist.
func readDocument(data []byte) (document, error) {
	var d document
	if len(data) == 0 {
		return d, nil
	}
	err := configuration.DecodeKind(data, &d, "WebhookAdmissionConfiguration", "apiserver.config.k8s.io/v1")
	if err != nil {
		if configuration.DecodeKind(data, &d, "WebhookAdmission", "apiserver.config.k8s.io/v1alpha1") != nil {
			return d, fmt.Errorf("reading the configuration of admission webhooks: %w", err)
		}
	}
	if d.KubeConfigFile != "" && !path.IsAbs(d.KubeConfigFile) {
		return d, field.Invalid(field.NewPath("kubeConfigFile"), d.KubeConfigFile, "must be an absolute file path")
	}
	return d, manifests.CheckDir(d.StaticManifestsDir) //nolint:wrapcheck // The text is Kubernetes'.
}

// newRequest returns a request as the webhooks are asked about it.
func newRequest(ctx context.Context, req *admission.Request) *request {
	return &request{Request: req, attributes: attributes.Of(ctx, req), operation: string(attributes.Operation(req.Verb))}
}

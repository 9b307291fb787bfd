// Package conversion converts custom resources between the versions of their definition: by naming the
// other version, or by asking the definition's webhook.
package conversion

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

const (
	// defaultTimeout bounds a call of a webhook. It is the time that an API request has by default.
	defaultTimeout = time.Minute
	// maxAnswer bounds the answer of a webhook, in bytes: that to a list of many objects.
	maxAnswer = 256 << 20
)

type crd = apiextensionsv1.CustomResourceDefinition

// Config configures Converters.
type Config struct {
	// Resolver finds the endpoints of Services. Required.
	Resolver webhook.Resolver
	// Dial connects to webhooks; a net.Dialer's if nil.
	Dial webhook.Dial
	// Registerer receives metrics under Kubernetes' names; nil for none.
	Registerer prometheus.Registerer
	// Timeout bounds a call of a webhook; a minute if 0.
	Timeout time.Duration
	// Proxy returns the proxy for a request to a URL; http.ProxyFromEnvironment if nil.
	Proxy func(*http.Request) (*url.URL, error)
}

// Converters makes what converts custom resources. Any goroutine may use it.
type Converters struct {
	clients *webhook.Clients
	metrics *metrics
	timeout time.Duration
}

// New returns converters without connections.
func New(cfg Config) (*Converters, error) {
	documents := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme} {
		if err := add(documents); err != nil {
			return nil, fmt.Errorf("registering the types of conversion reviews: %w", err)
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	return &Converters{
		metrics: newMetrics(cfg.Registerer), timeout: cfg.Timeout,
		clients: webhook.New(webhook.Config{
			Documents: documents, Versions: schema.GroupVersions{apiextensionsv1.SchemeGroupVersion, apiextensionsv1beta1.SchemeGroupVersion},
			Resolver: cfg.Resolver, Dial: cfg.Dial, UserAgent: "kube-apiserver-admission", Proxy: cfg.Proxy, MaxAnswer: maxAnswer,
		}),
	}, nil
}

// Keep closes the connections to all webhooks but those of definitions, and forgets the metrics of others.
func (c *Converters) Keep(definitions []*crd) {
	var targets []webhook.Target
	names := map[string]bool{}
	for _, one := range definitions {
		if byWebhook(one) {
			targets, names[one.Name] = append(targets, target(one)), true
		}
	}
	c.clients.Keep(targets)
	c.metrics.keep(names)
}

// Close closes all connections. No call may be under way.
func (c *Converters) Close() { c.Keep(nil) }

// Converter converts the objects of one definition. Any goroutine may use it.
type Converter struct {
	versions map[schema.GroupVersion]bool
	webhook  *caller // nil if versions differ by name only
}

// Of returns the converter of a definition. Its errors say why the webhook can never be called.
func (c *Converters) Of(definition *crd) (*Converter, error) {
	made := &Converter{versions: map[schema.GroupVersion]bool{}}
	for i := range definition.Spec.Versions {
		made.versions[schema.GroupVersion{Group: definition.Spec.Group, Version: definition.Spec.Versions[i].Name}] = true
	}
	if !byWebhook(definition) {
		return made, nil
	}
	client, err := c.clients.Client(target(definition))
	if err != nil {
		return nil, fmt.Errorf("preparing the conversion of %s: %w", definition.Name, err)
	}
	made.webhook = &caller{
		client: client, definition: definition.Name, reviews: configOf(definition).ConversionReviewVersions,
		metrics: c.metrics, timeout: c.timeout,
	}
	return made, nil
}

// Convert returns copies of objects in a version, in their order; a webhook is asked for all of them at once.
// As in Kubernetes, they get no defaults of it.
func (c *Converter) Convert(objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	if !c.versions[to] {
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to)
	}
	for i, u := range objs {
		switch from := u.GroupVersionKind().GroupVersion(); {
		case c.versions[from]:
		case len(objs) == 1:
			return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", from)
		default:
			return nil, fmt.Errorf("request to convert CR list failed, list index %d has invalid group/version: %s", i, from)
		}
	}
	if c.webhook != nil {
		return c.webhook.convert(objs, to)
	}
	made := make([]*unstructured.Unstructured, len(objs))
	for i, u := range objs {
		made[i] = u.DeepCopy()
		made[i].SetAPIVersion(to.String())
	}
	return made, nil
}

func byWebhook(definition *crd) bool {
	conversion := definition.Spec.Conversion // None is meant if it was never stored.
	return conversion != nil && conversion.Strategy == apiextensionsv1.WebhookConverter
}

// configOf returns the webhook of a definition that has one, as it stands there.
func configOf(definition *crd) apiextensionsv1.WebhookConversion {
	if config := definition.Spec.Conversion.Webhook; config != nil {
		return *config
	}
	return apiextensionsv1.WebhookConversion{}
}

// target returns the webhook of a definition that has one, as it is called.
func target(definition *crd) webhook.Target {
	made, config := webhook.Target{}, configOf(definition).ClientConfig
	if config == nil { // Validation refuses that.
		return made
	}
	if len(bytes.TrimSpace(config.CABundle)) > 0 {
		made.CABundle = config.CABundle
	}
	if config.URL != nil {
		made.URL = *config.URL
	}
	if s := config.Service; s != nil {
		made.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			made.Service.Path = *s.Path
		}
		if s.Port != nil {
			made.Service.Port = *s.Port
		}
	}
	return made
}

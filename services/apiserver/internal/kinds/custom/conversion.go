package custom

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// resolveTime bounds the search for an endpoint, which the watch cache answers.
const resolveTime = 5 * time.Second

// maxConverted bounds the response of a conversion webhook, in bytes: that to a list of many objects.
const maxConverted = 256 << 20

// Converters makes what converts custom resources between versions. It is safe for concurrent use.
type Converters struct {
	factory *conversion.CRConverterFactory
}

// Resolver finds where a Service is served.
type Resolver interface {
	// Resolve returns HOST:PORT of one ready endpoint of a Service's port.
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// resolving is a Resolver as the library wants it.
type resolving struct{ Resolver }

// ResolveEndpoint returns the URL of an endpoint of a Service.
func (r resolving) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTime)
	defer cancel()
	endpoint, err := r.Resolve(ctx, namespace, name, port)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: endpoint}, nil
}

// NewConverters returns converters that find the webhooks of Services by services.
func NewConverters(services Resolver) (*Converters, error) {
	factory, err := conversion.NewCRConverterFactory(resolving{services}, func(of webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		return guarded{of}
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to convert custom resources: %w", err)
	}
	return &Converters{factory}, nil
}

// guarded bounds what a webhook can do to its caller: its response has a limit, and it cannot redirect.
type guarded struct {
	webhook.AuthenticationInfoResolver
}

// ClientConfigFor returns the configuration of a client for a URL.
func (g guarded) ClientConfigFor(hostPort string) (*rest.Config, error) {
	return guard(g.AuthenticationInfoResolver.ClientConfigFor(hostPort))
}

// ClientConfigForService returns the configuration of a client for a Service.
func (g guarded) ClientConfigForService(name, namespace string, port int) (*rest.Config, error) {
	return guard(g.AuthenticationInfoResolver.ClientConfigForService(name, namespace, port))
}

func guard(config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return config, nil
}

// bounded is a transport that refuses redirects and long responses.
type bounded struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices && resp.StatusCode < http.StatusBadRequest {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the webhook redirects (status %d), which is not followed", resp.StatusCode)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxConverted)
	return resp, nil
}

// conversions are the ways between the versions of one definition.
type conversions struct {
	of       runtime.ObjectConvertor
	versions map[string]*rules
}

func (c *Converters) conversionsOf(crd *apiextensionsv1.CustomResourceDefinition, versions map[string]*rules) (*conversions, error) {
	if crd.Spec.Conversion == nil { // It was never stored.
		crd = crd.DeepCopy()
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	}
	safe, _, err := c.factory.NewConverter(crd)
	if err != nil {
		return nil, fmt.Errorf("preparing the conversion of %s: %w", crd.Name, err)
	}
	return &conversions{of: safe, versions: versions}, nil
}

// to returns the conversion of objects to a version. As in Kubernetes, they get no defaults of it.
func (c *conversions) to(version schema.GroupVersion) kinds.Conversion {
	return func(objs ...scheme.Object) ([]scheme.Object, error) { return c.all(objs, version) }
}

// all converts objects in one go, since each may be a call of a webhook.
func (c *conversions) all(objs []scheme.Object, to schema.GroupVersion) ([]scheme.Object, error) {
	if len(objs) == 0 {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	gvk := objs[0].GetObjectKind().GroupVersionKind()
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	for _, obj := range objs {
		list.Items = append(list.Items, *content(obj))
	}
	made, err := c.of.ConvertToVersion(list, to)
	if err != nil {
		return nil, err
	}
	found, ok := made.(*unstructured.UnstructuredList)
	if !ok || len(found.Items) != len(objs) {
		return nil, fmt.Errorf("converting %d objects to %s gave a %T", len(objs), to, made)
	}
	converted := make([]scheme.Object, len(objs))
	for i := range found.Items {
		converted[i] = &found.Items[i]
	}
	return converted, nil
}

// restore completes an object as etcd holds it, which may be of any version, as one of the stored version.
func (c *conversions) restore(u *unstructured.Unstructured, stored schema.GroupVersion) error {
	version := u.GroupVersionKind().Version
	if r := c.versions[version]; r != nil {
		// What is left of metadata that cannot be read is for its reader to see.
		_, _ = r.Prune(u, true, false)
	}
	if version != stored.Version {
		converted, err := c.all([]scheme.Object{u}, stored)
		if err != nil {
			return err
		}
		u.Object = content(converted[0]).Object
	}
	c.versions[stored.Version].Default(u)
	return nil
}

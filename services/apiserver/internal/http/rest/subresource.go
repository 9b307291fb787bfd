package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Part identifies what a Serve serves: the subresources of one name that hold one kind, of whatever
// resource. Without a name it is a virtual kind itself.
type Part struct {
	// Subresource is the name, for example "scale".
	Subresource string
	// Kind is the kind that requests and responses hold.
	Kind schema.GroupVersionKind
}

// Serve serves a request to a part. It sends the response, or returns the error to respond with.
type Serve func(c *Call) error

// partOf returns the part that a request concerns, and whether the generic operations serve it, too.
func partOf(target Target) (part Part, generic bool) {
	if s := target.Kind.Subresource(target.Subresource); s != nil {
		return Part{s.Name, s.Kind}, !s.Special(target.Kind)
	}
	return Part{Kind: target.Kind.GroupVersionKind}, true
}

// checkParts returns an error if a special subresource of a built-in kind has no Serve, or if there
// is a Serve that no kind needs. Custom kinds come and go: a special subresource of theirs that has
// no Serve cannot be used.
func checkParts(kinds []*scheme.Kind, parts map[Part]Serve) error {
	unused := map[Part]bool{}
	for part := range parts {
		unused[part] = true
	}
	for _, kind := range kinds {
		if kind.Virtual && !kind.Observed {
			delete(unused, Part{Kind: kind.GroupVersionKind})
		}
		for i := range kind.Subresources {
			part, generic := partOf(Target{Kind: kind, Subresource: kind.Subresources[i].Name})
			if generic {
				continue
			}
			delete(unused, part)
			if parts[part] == nil && !kind.Custom {
				return fmt.Errorf("nothing serves %s/%s, which holds %s", kind.Resource, part.Subresource, part.Kind)
			}
		}
	}
	var left []Part
	for part := range unused {
		left = append(left, part)
	}
	if len(left) == 0 {
		return nil
	}
	first := slices.MinFunc(left, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.Kind.String(), b.Kind.String()))
	})
	return fmt.Errorf("no kind has the subresource %q that holds %s", first.Subresource, first.Kind)
}

// special serves a request to a part that the generic operations do not serve. served is false if
// they do.
func (c *call) special() (served bool, err error) {
	part, generic := partOf(c.req.Target)
	if generic && !c.req.Kind.Virtual {
		return false, nil
	}
	if serve := c.Parts[part]; serve != nil {
		return true, serve(&Call{c})
	}
	if generic {
		return false, nil
	}
	return true, apierrors.NewMethodNotSupported(c.req.Kind.GroupResource(), c.req.Verb)
}

// Call is a request to a part, and the steps of serving it that all parts share. It belongs to one
// goroutine.
type Call struct{ call *call }

// Context returns the context of the request.
func (c *Call) Context() context.Context { return c.call.ctx() }

// Request returns what the client asks for.
func (c *Call) Request() Request { return c.call.req }

// HTTP returns the request and its response, for a part that sends something else than objects.
func (c *Call) HTTP() (http.ResponseWriter, *http.Request) { return c.call.w, c.call.r }

// Resource returns the operations on the kind of the request; nil for a virtual kind.
func (c *Call) Resource() *registry.Resource { return c.call.resource }

// Negotiate returns the format of a response that can only be an object itself.
func (c *Call) Negotiate() (response.Format, error) { return c.call.Encoder.Negotiate(c.call.r) }

// NegotiateForms returns the format of a response that can also be a Table or the metadata alone.
func (c *Call) NegotiateForms() (response.Format, error) { return c.call.negotiate() }

// CreateOptions reads the query of a POST.
func (c *Call) CreateOptions() (metav1.CreateOptions, error) { return c.call.createOptions() }

// UpdateOptions reads the query of a PUT.
func (c *Call) UpdateOptions() (metav1.UpdateOptions, error) { return c.call.updateOptions() }

// Read reads the body into obj, which has its group, version and kind set. directive is the
// fieldValidation of the request's options.
func (c *Call) Read(obj runtime.Object, directive string) error {
	return c.call.readInto(obj, directive)
}

// Patch reads the body and the query of a PATCH.
func (c *Call) Patch() (*patch.Patch, registry.UpdateOptions, error) {
	change, opts, err := c.call.readPatch()
	return change, c.call.patchOptions(opts), err
}

// FieldManager returns the owner of the written fields: given or, if it is empty, the client's own.
func (c *Call) FieldManager(given string) string { return c.call.writer(given) }

// BodyDryRun is called with the dryRun of a body's own options. A dry run leaves no trace and never
// reaches the store, so BodyDryRun returns an error if the fence of the request does not hold.
func (c *Call) BodyDryRun(dryRun []string) error { return c.call.dry(dryRun) }

// Warn adds warnings to the response.
func (c *Call) Warn(texts ...string) { c.call.warnings.Add(texts...) }

// Send responds with an object.
func (c *Call) Send(code int, format response.Format, obj runtime.Object) error {
	return c.call.send(code, format, obj)
}

// Written responds with an object after a successful write.
func (c *Call) Written(format response.Format, obj scheme.Object) error {
	return c.call.written(format, obj, false)
}

// Created responds that something was created which cannot be shown. The resourceVersion, which
// Kubernetes omits and which may be empty, is the revision from which a cache shows the effect.
func (c *Call) Created(format response.Format, version string) error {
	c.call.trace(nil)
	return c.call.send(http.StatusCreated, format, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
		ListMeta: metav1.ListMeta{ResourceVersion: version},
	})
}

// createOptions reads the query of a POST.
func (c *call) createOptions() (metav1.CreateOptions, error) {
	var opts metav1.CreateOptions
	if err := c.options(c.r.URL.Query(), &opts); err != nil {
		return opts, err
	}
	if errs := metav1validation.ValidateCreateOptions(&opts); len(errs) > 0 {
		return opts, apierrors.NewInvalid(metaKind("CreateOptions"), "", errs)
	}
	return opts, nil
}

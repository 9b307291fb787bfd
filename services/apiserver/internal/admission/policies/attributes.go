package policies

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/attributes"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// attributesOf shows a request to Kubernetes' libraries.
func attributesOf(ctx context.Context, req *admission.Request) k8sadmission.Attributes {
	name, namespace := req.Name, req.Namespace
	if name == "" && req.Object != nil {
		name = req.Object.GetName()
	}
	if req.Kind.GroupVersionKind == corev1.SchemeGroupVersion.WithKind("Namespace") {
		namespace = name // As in Kubernetes, for rules with a scope and for namespace selectors.
	}
	requester, _ := authn.UserFrom(ctx)
	return k8sadmission.NewAttributesRecord(req.Object, req.Old, kindOf(req), namespace, name, req.Kind.GroupVersionResource(), req.Subresource,
		attributes.Operation(req.Verb), req.Options, req.DryRun,
		&user.DefaultInfo{Name: requester.Name, UID: requester.UID, Groups: requester.Groups, Extra: requester.Extra})
}

// kindOf returns the kind of what a request holds. For a subresource that is not always the kind of
// the resource: a Binding is created below a Pod.
func kindOf(req *admission.Request) schema.GroupVersionKind {
	if req.Subresource == "" {
		return req.Kind.GroupVersionKind
	}
	if req.Object != nil {
		if gvk := req.Object.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
			return gvk
		}
	}
	if sub := req.Kind.Subresource(req.Subresource); sub != nil {
		return sub.Kind
	}
	return req.Kind.GroupVersionKind
}

// forms are a request's objects in the forms that policies match, each made when it is first needed.
type forms struct {
	engine *engine
	attr   k8sadmission.Attributes
	req    *admission.Request
	made   map[schema.GroupVersionKind]*k8sadmission.VersionedAttributes
}

// as returns the request's objects as a kind.
func (f *forms) as(gvk schema.GroupVersionKind) (*k8sadmission.VersionedAttributes, error) {
	if made := f.made[gvk]; made != nil {
		return made, nil
	}
	versioned := &k8sadmission.VersionedAttributes{Attributes: f.attr, VersionedKind: gvk}
	if f.req.Old != nil {
		old, err := f.convert(f.req.Old, gvk)
		if err != nil {
			return nil, err
		}
		versioned.VersionedOldObject.Set(old)
	}
	if f.req.Object != nil {
		obj, err := f.convert(f.req.Object, gvk)
		if err != nil {
			return nil, err
		}
		versioned.VersionedObject.Set(obj)
	}
	if f.made == nil {
		f.made = map[schema.GroupVersionKind]*k8sadmission.VersionedAttributes{}
	}
	f.made[gvk] = versioned
	return versioned, nil
}

func (f *forms) convert(obj scheme.Object, gvk schema.GroupVersionKind) (scheme.Object, error) {
	is := obj.GetObjectKind().GroupVersionKind()
	if is.Empty() {
		is = f.attr.GetKind()
	}
	if is != gvk {
		kind := f.engine.objects.Table.Kind(gvk)
		if kind == nil {
			return nil, fmt.Errorf("unable to convert to %v: unknown kind", gvk)
		}
		return f.engine.definitions.Convert(obj, kind)
	}
	return withKind(obj, gvk)
}

// withKind returns an object with its kind set, which expressions read: the object itself if it has a
// kind, otherwise a copy, since it may be shared.
func withKind(obj scheme.Object, gvk schema.GroupVersionKind) (scheme.Object, error) {
	if !obj.GetObjectKind().GroupVersionKind().Empty() {
		return obj, nil
	}
	copied, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("copying a %T: the copy has no metadata", obj)
	}
	copied.GetObjectKind().SetGroupVersionKind(gvk)
	return copied, nil
}

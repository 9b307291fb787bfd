package scheme

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// ErrRemoved reports that a kind is no longer served. It is Kubernetes' 404 for such a path.
var ErrRemoved error = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
	Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
}}

// Table is the set of served kinds with their shared codecs. Kinds can be installed and removed at
// any time: each of them is either built in, with a Go type, or custom, without one. A Table is safe
// for concurrent use.
type Table struct {
	scheme   *runtime.Scheme
	codecs   serializer.CodecFactory
	params   runtime.ParameterCodec
	protobuf runtime.Serializer
	scratch  sync.Pool // of *[]byte, for Complete

	mu    sync.Mutex // held while known is replaced
	known atomic.Pointer[index]
}

// index is an immutable state of a table.
type index struct {
	kinds      []*Kind
	byGVK      map[schema.GroupVersionKind]*Kind
	byGVR      map[schema.GroupVersionResource]*Kind
	byType     map[reflect.Type]*Kind         // without custom kinds
	byResource map[schema.GroupResource]*Kind // stored kinds only
	changed    chan struct{}                  // closed when another state replaces this one
}

func newIndex(kinds []*Kind) *index {
	i := &index{
		kinds: kinds, byGVK: map[schema.GroupVersionKind]*Kind{}, byGVR: map[schema.GroupVersionResource]*Kind{},
		byType: map[reflect.Type]*Kind{}, byResource: map[schema.GroupResource]*Kind{}, changed: make(chan struct{}),
	}
	for _, kind := range kinds {
		i.byGVK[kind.GroupVersionKind] = kind
		i.byGVR[kind.GroupVersionResource()] = kind
		if !kind.Custom {
			i.byType[reflect.TypeOf(kind.newObject())] = kind
		}
		if kind.Stored() {
			i.byResource[kind.GroupResource()] = kind
		}
	}
	return i
}

// New builds a table of all built-in kinds.
func New() *Table {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, appsv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme,
		nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme,
		schedulingv1.AddToScheme, storagev1.AddToScheme, storagemigrationv1.AddToScheme,
		metricsv1beta1.AddToScheme, metav1.AddMetaToScheme,
	} {
		if err := add(s); err != nil {
			panic(fmt.Sprintf("scheme: registering API types: %v", err))
		}
	}
	t := &Table{
		scheme:   s,
		codecs:   serializer.NewCodecFactory(s),
		params:   runtime.NewParameterCodec(s),
		protobuf: protobuf.NewSerializer(s, s),
	}
	ignored := notActedOn()
	var kinds []*Kind
	for _, row := range rows() {
		row.NotActedOn = ignored[row.Kind+"."+row.Group]
		if row.Storage.Empty() {
			row.Storage = row.GroupVersionKind
		}
		if row.older != "" {
			row.etcd = older(row.Storage, row.older, row.newObject)
		}
		if err := row.completeSubresources(s); err != nil {
			panic(fmt.Sprintf("scheme: %v", err))
		}
		kinds = append(kinds, &row)
	}
	t.known.Store(newIndex(kinds))
	return t
}

// Install adds kinds, all at once or, on an error, none. The table takes ownership of them. A kind
// without Storage is stored as itself. It is an error if the table has a kind of the same group,
// version and kind or resource, if a name is missing, if a kind is stored as one that is not there, if
// two stored kinds have one resource or overlapping keys, or if a subresource has no verbs, the name of
// another, or another kind without a Go type.
func (t *Table) Install(kinds ...*Kind) error { return t.Replace(nil, kinds) }

// Replace removes kinds, and every kind that is stored as one of them, and adds others as Install does,
// all at once or, on an error, nothing. A kind may be in both lists, and so stay. Subscribers of Follow are
// told even if all stay: what is known of the kinds elsewhere may have changed.
func (t *Table) Replace(gone, kinds []*Kind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.known.Load()
	old := before
	if len(gone) > 0 {
		old = newIndex(slices.DeleteFunc(slices.Clone(before.kinds), func(kind *Kind) bool {
			return slices.ContainsFunc(gone, func(one *Kind) bool {
				return one == kind || !kind.Virtual && kind.Storage == one.GroupVersionKind
			})
		}))
	}
	all := slices.Concat(old.kinds, kinds)
	for _, kind := range kinds {
		if kind.Storage.Empty() {
			kind.Storage = kind.GroupVersionKind
		}
		if !kind.Custom && kind.newObject == nil {
			return fmt.Errorf("installing the kind %s: it has no Go type and is not custom", kind.GroupVersionKind)
		}
		if kind.Version == "" || kind.Kind == "" || kind.Resource == "" || !kind.Virtual && kind.StoragePrefix == "" {
			return fmt.Errorf("installing the kind %s: version, kind, resource and storage prefix must be set", kind.GroupVersionKind)
		}
		if old.byGVK[kind.GroupVersionKind] != nil || old.byGVR[kind.GroupVersionResource()] != nil {
			return fmt.Errorf("installing the kind %s (%s): the table has it already", kind.GroupVersionKind, kind.Resource)
		}
		if err := kind.completeSubresources(t.scheme); err != nil {
			return err
		}
	}
	next := newIndex(all)
	if len(next.byGVK) != len(all) || len(next.byGVR) != len(all) {
		return fmt.Errorf("installing %d kinds: two of them are the same", len(kinds))
	}
	for _, kind := range kinds {
		if stored := next.byGVK[kind.Storage]; stored == nil || !kind.Virtual && !stored.Stored() {
			return fmt.Errorf("installing the kind %s: it is stored as %s, which is not served", kind.GroupVersionKind, kind.Storage)
		}
	}
	for _, kind := range kinds {
		if err := next.separate(kind); err != nil {
			return err
		}
	}
	t.replace(before, next)
	return nil
}

// separate returns an error if another stored kind has a stored kind's resource, or its keys.
func (i *index) separate(kind *Kind) error {
	for _, other := range i.kinds {
		if other == kind || !kind.Stored() || !other.Stored() {
			continue
		}
		if other.GroupResource() == kind.GroupResource() {
			return fmt.Errorf("installing the kind %s: %s is stored as another version already", kind.GroupVersionKind, kind.GroupResource())
		}
		if one, two := kind.StoragePrefix, other.StoragePrefix; within(one, two) || within(two, one) {
			return fmt.Errorf("installing the kind %s: its keys, below %s/, would be among those of %s", kind.GroupVersionKind, one, other.GroupVersionKind)
		}
	}
	return nil
}

// within reports whether a folder is another one, or in it.
func within(folder, other string) bool {
	return strings.HasPrefix(folder, other) && (len(folder) == len(other) || folder[len(other)] == '/')
}

// Remove removes a kind, and every kind that is stored as it. It reports whether the table had the
// kind.
func (t *Table) Remove(gvk schema.GroupVersionKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.known.Load()
	if old.byGVK[gvk] == nil {
		return false
	}
	t.replace(old, newIndex(slices.DeleteFunc(slices.Clone(old.kinds), func(kind *Kind) bool {
		return kind.GroupVersionKind == gvk || !kind.Virtual && kind.Storage == gvk
	})))
	return true
}

func (t *Table) replace(old, next *index) {
	t.known.Store(next)
	close(old.changed)
}

// Kinds returns all kinds, unserved ones too: the built-in ones in the order of discovery, then the others in
// the order of their installation. The slice and the kinds are shared: do not change them.
func (t *Table) Kinds() []*Kind { return t.known.Load().kinds }

// Served returns those of kinds that clients can ask for.
func Served(kinds []*Kind) []*Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind *Kind) bool { return kind.Unserved })
}

// Follow returns all kinds, as Kinds does, and a channel that is closed when they change. A
// subscriber calls Follow again then. It sees the latest state, and maybe not each one before.
func (t *Table) Follow() (kinds []*Kind, changed <-chan struct{}) {
	known := t.known.Load()
	return known.kinds, known.changed
}

// Serves reports whether the table has the very kind: it was not removed, nor replaced by another
// one of the same name.
func (t *Table) Serves(kind *Kind) bool { return t.Kind(kind.GroupVersionKind) == kind }

// Kind returns the kind of a group, version and kind; nil if it is not served.
func (t *Table) Kind(gvk schema.GroupVersionKind) *Kind { return t.known.Load().byGVK[gvk] }

// Resource returns the kind of a group, version and resource; nil if it is not served.
func (t *Table) Resource(gvr schema.GroupVersionResource) *Kind {
	if kind := t.known.Load().byGVR[gvr]; kind != nil && !kind.Unserved {
		return kind
	}
	return nil
}

// Stored returns the stored kind of a resource, as watch messages name it; nil if there is none.
func (t *Table) Stored(resource schema.GroupResource) *Kind {
	return t.known.Load().byResource[resource]
}

// KindOf returns the kind of obj's group, version and kind, or of its Go type if obj has none set;
// nil if it is not served.
func (t *Table) KindOf(obj Object) *Kind {
	if obj == nil {
		return nil
	}
	known := t.known.Load()
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		if kind := known.byGVK[gvk]; kind != nil && kind.Holds(obj) {
			return kind
		}
		return nil
	}
	return known.byType[reflect.TypeOf(obj)]
}

// For returns the row of the Go type T. It panics if there is none, since a program that uses a
// type outside the table cannot work.
func For[T Object](t *Table) *Kind {
	kind := t.known.Load().byType[reflect.TypeFor[T]()]
	if kind == nil {
		panic(fmt.Sprintf("scheme: %v is not a served kind", reflect.TypeFor[T]()))
	}
	return kind
}

// Scheme returns apimachinery's registry of the Go types in the table.
func (t *Table) Scheme() *runtime.Scheme { return t.scheme }

// Codecs returns the negotiated serializers: JSON, YAML and Kubernetes protobuf.
func (t *Table) Codecs() serializer.CodecFactory { return t.codecs }

// Parameters returns the codec between option structs and URL queries.
func (t *Table) Parameters() runtime.ParameterCodec { return t.params }

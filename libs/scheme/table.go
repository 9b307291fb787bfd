package scheme

import (
	"fmt"
	"reflect"
	"sync"

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Table is the set of served kinds with their shared codecs. It never changes after New and is safe
// for concurrent use.
type Table struct {
	kinds    []*Kind
	byGVK    map[schema.GroupVersionKind]*Kind
	byGVR    map[schema.GroupVersionResource]*Kind
	byType   map[reflect.Type]*Kind
	scheme   *runtime.Scheme
	codecs   serializer.CodecFactory
	params   runtime.ParameterCodec
	protobuf runtime.Serializer
	scratch  sync.Pool // of *[]byte, for Complete
}

// New builds the table of all served kinds.
func New() *Table {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme, appsv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme,
		nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme,
		schedulingv1.AddToScheme, storagev1.AddToScheme,
		metav1.AddMetaToScheme,
	} {
		if err := add(s); err != nil {
			panic(fmt.Sprintf("scheme: registering API types: %v", err))
		}
	}
	t := &Table{
		byGVK:    map[schema.GroupVersionKind]*Kind{},
		byGVR:    map[schema.GroupVersionResource]*Kind{},
		byType:   map[reflect.Type]*Kind{},
		scheme:   s,
		codecs:   serializer.NewCodecFactory(s),
		params:   runtime.NewParameterCodec(s),
		protobuf: protobuf.NewSerializer(s, s),
	}
	ignored := notActedOn()
	for _, row := range rows() {
		row.NotActedOn = ignored[row.Kind+"."+row.Group]
		if row.Storage.Empty() {
			row.Storage = row.GroupVersionKind
		}
		kind := &row
		t.kinds = append(t.kinds, kind)
		t.byGVK[kind.GroupVersionKind] = kind
		t.byGVR[kind.GroupVersionResource()] = kind
		t.byType[reflect.TypeOf(kind.newObject())] = kind
	}
	return t
}

// Kinds returns the rows in table order. The slice and the rows are shared: do not change them.
func (t *Table) Kinds() []*Kind { return t.kinds }

// Kind returns the row of a group, version and kind; nil if it is not served.
func (t *Table) Kind(gvk schema.GroupVersionKind) *Kind { return t.byGVK[gvk] }

// Resource returns the row of a group, version and resource; nil if it is not served.
func (t *Table) Resource(gvr schema.GroupVersionResource) *Kind { return t.byGVR[gvr] }

// KindOf returns the row of obj's group, version and kind, or of its Go type if obj has none set;
// nil if it is not served.
func (t *Table) KindOf(obj Object) *Kind {
	if obj == nil {
		return nil
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		if kind := t.byGVK[gvk]; kind != nil && kind.Holds(obj) {
			return kind
		}
		return nil
	}
	return t.byType[reflect.TypeOf(obj)]
}

// For returns the row of the Go type T. It panics if there is none, since a program that uses a
// type outside the table cannot work.
func For[T Object](t *Table) *Kind {
	kind := t.byType[reflect.TypeFor[T]()]
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

package scheme_test

import (
	"reflect"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/garboard/garboard/libs/scheme"
)

// TestOlderVersionsAreStored checks the kinds that Kubernetes stores as an older version: its own type of that
// version reads what we write, and we read the older version, the newer one, protobuf and JSON.
func TestOlderVersionsAreStored(t *testing.T) {
	table := scheme.New()
	theirs := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		certificatesv1.AddToScheme, certificatesv1beta1.AddToScheme, resourcev1.AddToScheme, resourcev1beta2.AddToScheme,
	} {
		if err := add(theirs); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(theirs)
	meta, expiry := metav1.ObjectMeta{Name: "one", UID: "u"}, int32(3600)
	for name, c := range map[string]struct{ ours, theirs scheme.Object }{
		"ClusterTrustBundle": {
			&certificatesv1.ClusterTrustBundle{ObjectMeta: meta, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "example.com/a", TrustBundle: "PEM"}},
			&certificatesv1beta1.ClusterTrustBundle{ObjectMeta: meta, Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "example.com/a", TrustBundle: "PEM"}},
		},
		"PodCertificateRequest": {
			&certificatesv1.PodCertificateRequest{ObjectMeta: meta, Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "example.com/a", PodName: "p", MaxExpirationSeconds: &expiry, StubPKCS10Request: []byte("DER"),
			}},
			&certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta, Spec: certificatesv1beta1.PodCertificateRequestSpec{
				SignerName: "example.com/a", PodName: "p", MaxExpirationSeconds: &expiry, StubPKCS10Request: []byte("DER"),
			}},
		},
		"DeviceTaintRule": {
			&resourcev1.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1.DeviceTaintRuleSpec{Taint: resourcev1.DeviceTaint{Key: "k", Effect: "NoExecute"}}},
			&resourcev1beta2.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1beta2.DeviceTaintRuleSpec{Taint: resourcev1beta2.DeviceTaint{Key: "k", Effect: "NoExecute"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sameFields(t, name, reflect.TypeOf(c.ours), reflect.TypeOf(c.theirs))
			kind := table.KindOf(c.ours)
			data, err := table.EncodeStorage(kind, c.ours)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.ours.GetObjectKind().GroupVersionKind(); !got.Empty() {
				t.Errorf("encoding the object changed its kind to %s", got)
			}
			obj, gvk, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
			if err != nil || *gvk != kind.Encoded() {
				t.Fatalf("Kubernetes reads %v, want %s: %v", gvk, kind.Encoded(), err)
			}
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			if !apiequality.Semantic.DeepEqual(obj, c.theirs) {
				t.Errorf("Kubernetes reads %+v, want %+v", obj, c.theirs)
			}
			for _, stored := range []struct {
				obj   runtime.Object
				media string
			}{
				{c.ours, runtime.ContentTypeJSON}, {c.ours, runtime.ContentTypeProtobuf},
				{c.theirs, runtime.ContentTypeJSON}, {c.theirs, runtime.ContentTypeProtobuf},
			} {
				info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), stored.media)
				gvks, _, err := theirs.ObjectKinds(stored.obj)
				if err != nil {
					t.Fatal(err)
				}
				value, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, gvks[0].GroupVersion()), stored.obj)
				if err != nil {
					t.Fatal(err)
				}
				got, err := table.DecodeStorage(kind, value)
				if err != nil {
					t.Fatalf("%s as %s: %v", gvks[0], stored.media, err)
				}
				want := c.ours.DeepCopyObject()
				want.GetObjectKind().SetGroupVersionKind(kind.Storage)
				if !apiequality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s as %s: read %+v, want %+v", gvks[0], stored.media, got, want)
				}
			}
		})
	}
}

// sameFields checks that an older version has all fields of the newer one in the same places.
func sameFields(t *testing.T, path string, newer, older reflect.Type) {
	t.Helper()
	if newer == older {
		return
	}
	if newer.Kind() != older.Kind() {
		t.Errorf("%s is a %s, and a %s in the older version", path, newer, older)
		return
	}
	switch newer.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		sameFields(t, path, newer.Elem(), older.Elem())
	case reflect.Struct:
		for field := range newer.Fields() {
			was, ok := older.FieldByName(field.Name)
			if !ok || was.Tag.Get("json") != field.Tag.Get("json") || was.Tag.Get("protobuf") != field.Tag.Get("protobuf") {
				t.Errorf("%s.%s is encoded as %s, and as %s in the older version", path, field.Name, field.Tag, was.Tag)
				continue
			}
			sameFields(t, path+"."+field.Name, field.Type, was.Type)
		}
	default:
	}
}

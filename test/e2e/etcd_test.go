package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/test/e2e/plane"
)

// recording writes the golden file, after an intended change of what etcd stores.
var recording = flag.Bool("record", false, "record the golden files")

// TestEtcdHoldsWhatKubernetesWould compares the keys in etcd after the scenario with recorded ones,
// and decodes every value with Kubernetes' own types.
func TestEtcdHoldsWhatKubernetesWould(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `image updated`, "set", "image", "deployment/nginx-deployment", "nginx=nginx:1.16.1")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `created`, "create", "secret", "generic", "token", "--from-literal=key=value")
	expect(t, p, "", `created`, "create", "service", "clusterip", "nginx", "--tcp=80:80")
	running(t, p, 1)

	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Etcd()}, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	golden, err := os.ReadFile(filepath.Join("testdata", "keys.golden"))
	if err != nil && !*recording {
		t.Fatal(err)
	}
	var keys string
	plane.Eventually(t, "etcd to hold the recorded keys", func(ctx context.Context) error {
		keys = keysOf(ctx, t, etcd)
		if !*recording && keys != string(golden) {
			return fmt.Errorf("keys differ (-want +got):\n%s", cmp.Diff(string(golden), keys))
		}
		return nil
	})
	if *recording {
		if err := os.WriteFile(filepath.Join("testdata", "keys.golden"), []byte(keys), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	decodeAll(t, etcd)
	// kube-apiserver's key, by which apiservers take turns to compact etcd.
	if turn, err := etcd.Get(t.Context(), "compact_rev_key"); err != nil || turn.Count != 1 {
		t.Errorf("the plane's apiserver does not compact etcd: %v, %v", turn, err)
	}
}

// keysOf lists etcd's keys, with placeholders for generated parts of names. It lists Events once
// per namespace, without their names, since their number varies.
func keysOf(ctx context.Context, t *testing.T, etcd *clientv3.Client) string {
	t.Helper()
	res, err := etcd.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	hash := regexp.MustCompile(`^(/registry/(?:pods|replicasets)/default/nginx-deployment)-[a-z0-9]+(-[a-z0-9]{5})?$`)
	slice := regexp.MustCompile(`^(/registry/endpointslices/default/nginx)-[a-z0-9]{5}$`)
	address := regexp.MustCompile(`^/registry/ipaddresses/10\.(96\.0\.([2-9]|1\d)|96\.[1-9]|9[7-9]|1\d\d).*$`)
	event := regexp.MustCompile(`^(/registry/events/[^/]+)/.*$`)
	identity := regexp.MustCompile(`^(/registry/leases/kube-system/apiserver)-[a-z0-9]{26}$`)
	bundle := regexp.MustCompile(`^(/registry/clustertrustbundles/kubernetes\.io:kube-apiserver-serving:)[0-9a-f]{24}$`)
	var keys []string
	for _, kv := range res.Kvs {
		key := hash.ReplaceAllString(string(kv.Key), "$1-HASH$2")
		key = regexp.MustCompile(`HASH-[a-z0-9]{5}$`).ReplaceAllString(key, "HASH-RAND")
		key = slice.ReplaceAllString(key, "$1-RAND")
		key = address.ReplaceAllString(key, "/registry/ipaddresses/ADDRESS")
		key = event.ReplaceAllString(key, "$1/EVENT")
		key = bundle.ReplaceAllString(key, "${1}HASH")
		key = identity.ReplaceAllString(key, "$1-HASH")
		keys = append(keys, key)
	}
	slices.Sort(keys)
	compacted := keys[:0]
	for _, key := range keys {
		if !strings.HasSuffix(key, "/EVENT") || len(compacted) == 0 || compacted[len(compacted)-1] != key {
			compacted = append(compacted, key)
		}
	}
	return strings.Join(compacted, "\n") + "\n"
}

// decodeAll decodes every value as a kube-apiserver would.
func decodeAll(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	res, err := etcd.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	decoder := decoderOfAll(t)
	for _, kv := range res.Kvs {
		// Kubernetes' aggregator stores JSON.
		if text := strings.HasPrefix(string(kv.Key), "/registry/apiregistration.k8s.io/"); text == strings.HasPrefix(string(kv.Value), "k8s\x00") {
			t.Errorf("%s begins with %.8q", kv.Key, kv.Value)
			continue
		}
		obj, gvk, err := decoder.Decode(kv.Value, nil, nil)
		if err != nil {
			t.Errorf("%s does not decode: %v", kv.Key, err)
			continue
		}
		accessor, err := meta.Accessor(obj)
		if err != nil {
			t.Errorf("%s is a %s without metadata", kv.Key, gvk)
			continue
		}
		if !strings.HasSuffix(string(kv.Key), "/"+accessor.GetName()) || accessor.GetUID() == "" || accessor.GetResourceVersion() != "" {
			t.Errorf("%s holds %s %q, uid %q, resourceVersion %q", kv.Key, gvk, accessor.GetName(), accessor.GetUID(), accessor.GetResourceVersion())
		}
		if deployment, ok := obj.(*appsv1.Deployment); ok && deployment.Spec.Template.Spec.Containers[0].Image != "nginx:1.16.1" {
			t.Errorf("%s holds image %s", kv.Key, deployment.Spec.Template.Spec.Containers[0].Image)
		}
		if strings.HasPrefix(string(kv.Key), "/registry/events/") && kv.Lease == 0 {
			t.Errorf("%s has no lease", kv.Key)
		}
	}
}

// decoderOfAll returns a decoder for the types of client-go and of kube-aggregator, which has its
// own scheme.
func decoderOfAll(t *testing.T) runtime.Decoder {
	t.Helper()
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(all); err != nil {
			t.Fatal(err)
		}
	}
	return serializer.NewCodecFactory(all).UniversalDeserializer()
}

package conformance

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// What surrounds the pods of all cases.
const (
	Namespace     = "shop"
	NodeName      = "n1"
	ClusterDomain = "cluster.local"
	ClusterDNS    = "10.96.0.10"
	// Resolver is the node's resolver configuration.
	Resolver = "nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch corp.example example svc.cluster.local\noptions ndots:2 timeout:1\n"
)

// NodeIPs returns the node's addresses.
func NodeIPs() []string { return []string{"192.0.2.1", "2001:db8::1"} }

// APINode returns the Node object of all cases.
func APINode() *corev1.Node {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse("50Gi"), corev1.ResourcePods: resource.MustParse("110"),
			"hugepages-2Mi": resource.MustParse("1Gi"),
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}, Status: corev1.NodeStatus{
		Capacity: amounts("8", "16Gi"), Allocatable: amounts("7500m", "15Gi"),
	}}
	for _, ip := range NodeIPs() {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return node
}

// Image is an image of a Machine or of a registry.
type Image struct {
	Name string
	// Present reports whether a machine has the image from the start.
	Present bool
	// User is the user that the image's process runs as: a number, a name, or empty.
	User string
	// Username is the user who may pull the image; anybody if empty.
	Username string
}

// Images returns all images.
func Images() []Image {
	return []Image{
		{Name: "registry.example/present:1", Present: true},
		{Name: "registry.example/root:1", Present: true, User: "0"},
		{Name: "registry.example/user:1", Present: true, User: "1000"},
		{Name: "registry.example/named:1", Present: true, User: "web"},
		{Name: "registry.example/absent:1"},
		{Name: "registry.example/absent:latest"},
		{Name: "nginx:latest"},
		{Name: "registry.example/user@sha256:0000000000000000000000000000000000000000000000000000000000000001", User: "65534"},
		{Name: "private.example/team/app:1", Username: "team"},
		{Name: "private.example:5000/app:1", Username: "port"},
		{Name: "sub.wild.example/app:1", Username: "wild"},
		{Name: "docker.io/library/private:1", Username: "hub"},
	}
}

// ID returns the ID of the image.
func (i Image) ID() string {
	sum := sha256.Sum256([]byte(i.Name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (i Image) cri() *cri.Image {
	image := &cri.Image{Id: i.ID(), RepoTags: []string{i.Name}, Size: 1 << 20}
	switch i.User {
	case "":
	case "0", "1000", "65534":
		image.Uid = &cri.Int64Value{Value: map[string]int64{"1000": 1000, "65534": 65534}[i.User]}
	default:
		image.Username = i.User
	}
	return image
}

// Objects returns the objects that pods refer to.
func Objects() []scheme.Object {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "0b1ec7"}
	}
	service := func(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: meta(namespace, name), Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	pull := func(name string, kind corev1.SecretType, key, text string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: meta(Namespace, name), Type: kind, Data: map[string][]byte{key: []byte(text)}}
	}
	return []scheme.Object{
		&corev1.ConfigMap{ObjectMeta: meta(Namespace, "settings"), Data: map[string]string{
			"COLOR": "blue", "dotted.key": "1", "with-dash": "2", "REF": "$(COLOR)", "EMPTY": "", "1DIGIT": "x", "WEB_SERVICE_HOST": "mine",
		}},
		&corev1.ConfigMap{ObjectMeta: meta(Namespace, "more"), Data: map[string]string{"COLOR": "green", "SIZE": "10"}},
		&corev1.Secret{ObjectMeta: meta(Namespace, "keys"), Data: map[string][]byte{"TOKEN": []byte("s3cr3t"), "BINARY": {0xc3, 0xa9}}},
		pull("team", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey,
			`{"auths":{"https://private.example/v1/":{"auth":"b3RoZXI6cHc="},"private.example/team":{"username":"team","password":"pw","email":"e@x"},
			"private.example:5000":{"auth":"cG9ydDpwdw=="},"*.wild.example":{"username":"wild","password":"pw"},
			"https://index.docker.io/v1/":{"username":"hub","password":"pw"}}}`),
		pull("old", corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"private.example":{"username":"old","password":"pw"}}`),
		service(metav1.NamespaceDefault, "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}),
		service(metav1.NamespaceDefault, "elsewhere", "10.96.0.2", corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP}),
		service(Namespace, "web", "10.96.0.3", corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP},
			corev1.ServicePort{Name: "dns-udp", Port: 53, Protocol: corev1.ProtocolUDP}),
		service(Namespace, "my-db", "fd00::3", corev1.ServicePort{Port: 5432, Protocol: corev1.ProtocolTCP}),
		service(Namespace, "headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP}),
		service(Namespace, "unassigned", "", corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP}),
	}
}

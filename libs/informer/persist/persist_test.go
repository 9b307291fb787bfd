package persist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var h = fabric.History{Created: 1, Nonce: 2}

// driven is a source with one follower, driven by the test.
type driven struct {
	informer.FollowerDefaults
	sink    informer.Sink
	at      fabric.Position
	objects []informer.Object
	refuse  error
}

func (d *driven) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	d.sink = sink
	return d
}

func (d *driven) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (d *driven) Via() string { return watcher.ViaNATS }

func (d *driven) Resumes() bool { return true }

func (d *driven) Resume(at fabric.Position, objects []informer.Object) error {
	d.at, d.objects = at, objects
	return d.refuse
}

func pod(name string, revision int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(revision)}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return p
}

// life runs an informer of pods over a persisting source, until end is called.
func life(t *testing.T, dir, version string, logs *bytes.Buffer) (pods informer.SharedInformer[*corev1.Pod], d *driven, end func()) {
	t.Helper()
	d = &driven{}
	table := scheme.New()
	source := New(Config{Source: d, Table: table, Dir: dir, Version: version, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	pods = informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: source, Table: table, Service: "test"}, informer.View{Namespace: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	synctest.Wait()
	return pods, d, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func names(pods informer.SharedInformer[*corev1.Pod]) []string {
	var found []string
	for _, p := range pods.Indexer().List() {
		found = append(found, p.Name+"@"+p.ResourceVersion)
	}
	slices.Sort(found)
	return found
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var logs bytes.Buffer
		pods, d, end := life(t, dir, "1", &logs)
		if len(names(pods)) > 0 || !d.at.History.IsZero() || logs.Len() > 0 {
			t.Errorf("the first process began with %v, %s", names(pods), &logs)
		}
		if via := pods.Status().Via; via != watcher.ViaNATS {
			t.Errorf("the changes come over %q", via)
		}
		d.sink.Replace(fabric.Position{History: h, Revision: 10}, []informer.Object{pod("x", 5), pod("y", 7)})
		d.sink.Apply([]informer.Change{{Revision: 12, Namespace: "a", Name: "z", UID: "z", Object: pod("z", 12)}}, 12)
		time.Sleep(DefaultEvery + time.Second)
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("there are %v, %v", files, err)
		}
		before, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		d.sink.Apply(nil, 20)
		synctest.Wait()
		end()
		after, err := os.ReadFile(files[0])
		if err != nil || bytes.Equal(before, after) {
			t.Errorf("nothing was written at the end: %v", err)
		}

		// The next process shows the content at once, but does not trust it.
		pods, d, end = life(t, dir, "1", &logs)
		if got := names(pods); !slices.Equal(got, []string{"x@5", "y@7", "z@12"}) || pods.Revision() != 20 || pods.HasSynced() {
			t.Errorf("resumed with %v at %d, synced %v: %s", got, pods.Revision(), pods.HasSynced(), &logs)
		}
		if d.at != (fabric.Position{History: h, Revision: 20}) || len(d.objects) != 3 {
			t.Errorf("the follower resumes %v %v", d.at, d.objects)
		}
		var told []string
		if _, err := pods.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc: func(p *corev1.Pod, initial bool) { told = append(told, fmt.Sprint(p.Name, initial)) },
		}); err != nil {
			t.Fatal(err)
		}
		d.sink.Apply([]informer.Change{{Revision: 25, Deleted: true, Namespace: "a", Name: "x", UID: "x"}}, 25)
		synctest.Wait()
		if len(told) > 0 || pods.HasSynced() {
			t.Errorf("the handler got %v before the content was confirmed", told)
		}
		d.sink.Confirmed()
		synctest.Wait()
		slices.Sort(told)
		if !pods.HasSynced() || !slices.Equal(told, []string{"ytrue", "ztrue"}) {
			t.Errorf("synced %v, the handler got %v", pods.HasSynced(), told)
		}
		end()

		// A process whose content is not confirmed, or has no history, leaves the file as it is.
		kept, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, say := range []func(informer.Sink){
			func(s informer.Sink) { s.Apply(nil, 50) },
			func(s informer.Sink) { s.Replace(fabric.Position{Revision: 60}, nil) },
		} {
			_, d, end = life(t, dir, "1", &logs)
			say(d.sink)
			synctest.Wait()
			end()
			if now, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(now, kept) {
				t.Errorf("the file was written: %v", err)
			}
		}
	})
}

func TestFilesOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		table := scheme.New()
		kind := scheme.For[*corev1.Pod](table)
		want := about{Version: "v1", Kind: "Pod", View: informer.View{Namespace: "a"}, Program: "1"}
		good, err := encode(table, kind, content{about: want, at: fabric.Position{History: h, Revision: 9}, objects: []informer.Object{pod("x", 5)}})
		if err != nil {
			t.Fatal(err)
		}
		other := want
		other.View.Namespace = "b"
		foreign, err := encode(table, kind, content{about: other, at: fabric.Position{History: h, Revision: 9}})
		if err != nil {
			t.Fatal(err)
		}
		damaged := slices.Clone(good)
		damaged[len(damaged)/2] ^= 1
		path := filepath.Join(dir, fileName(kind, want.View))
		for name, data := range map[string][]byte{
			"empty": {}, "cut off": good[:len(good)-1], "another version": append([]byte("garboard informer cache 9\n"), good...),
			"damaged": damaged, "longer": append(slices.Clone(good), 0), "foreign": foreign, "text": []byte(strings.Repeat("x", 1000)),
		} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			var logs bytes.Buffer
			pods, d, end := life(t, dir, "1", &logs)
			if len(names(pods)) > 0 || !d.at.History.IsZero() || !strings.Contains(logs.String(), "ignoring a cache file") {
				t.Errorf("%s: began with %v: %s", name, names(pods), &logs)
			}
			end()
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		var logs bytes.Buffer
		pods, _, end := life(t, dir, "2", &logs)
		if len(names(pods)) > 0 {
			t.Error("another version of the program used the file")
		}
		end()
		pods, _, end = life(t, dir, "1", &logs)
		if len(names(pods)) != 1 {
			t.Errorf("a usable file was not used: %s", &logs)
		}
		end()
	})
}

func TestConfidential(t *testing.T) {
	table := scheme.New()
	dir := t.TempDir()
	for _, only := range []func(*scheme.Kind, informer.View) bool{nil, func(*scheme.Kind, informer.View) bool { return true }} {
		d := &driven{}
		source := New(Config{Source: d, Table: table, Dir: dir, Only: only})
		secrets := informer.NewSharedInformer[*corev1.Secret](informer.Config{Source: source, Table: table, Service: "test"}, informer.View{})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}
		d.sink.Replace(fabric.Position{History: h, Revision: 5}, []informer.Object{secret})
		ctx, cancel := context.WithCancel(t.Context())
		if only == nil {
			cancel()
		}
		if err := secrets.Run(ctx); errors.Is(err, ErrConfidential) != (only != nil) {
			t.Errorf("following secrets: %v", err)
		}
		cancel()
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("secrets were written to files: %v, %v", files, err)
		}
	}
}

// FuzzDecode checks that no file makes a program fail, and that only complete files are accepted.
func FuzzDecode(f *testing.F) {
	table := scheme.New()
	kind := scheme.For[*corev1.Pod](table)
	want := about{Version: "v1", Kind: "Pod"}
	good, err := encode(table, kind, content{about: want, at: fabric.Position{History: h, Revision: 9}, objects: []informer.Object{pod("x", 5), pod("y", 6)}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, false)
	f.Add(good[:len(good)-32], true)
	f.Add([]byte(magic), true)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed { // with a correct checksum, since no fuzzer finds one
			data = seal(data)
		}
		c, err := decode(data, table, kind, want)
		if err == nil && (len(c.objects) != c.Objects || c.at.Revision <= 0 || c.at.History.IsZero()) {
			t.Errorf("accepted %+v", c)
		}
	})
}

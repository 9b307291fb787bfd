package bus_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

const (
	documentPath = "../../../../../docs/explanation/fabric.md"
	// updateDocument is the environment variable that has the test rewrite the document's examples.
	updateDocument = "GARBOARD_UPDATE_DOCUMENT"
)

// TestFabricDocument does what docs/explanation/fabric.md describes for an informer, with only
// subjects and protobuf, and compares what is on the wire with what the document shows.
func TestFabricDocument(t *testing.T) {
	t.Parallel()
	d := newFabricDocument(t)
	d.follow()
	document, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- example: (\\S+) -->\n\n(?:```[a-z]+\n.*?```\n\n)?")
	want := shown.ReplaceAllStringFunc(string(document), func(found string) string {
		name := shown.FindStringSubmatch(found)[1]
		example, ok := d.examples[name]
		if !ok {
			t.Errorf("the document has an example %q, which the test does not produce", name)
		}
		delete(d.examples, name)
		return fmt.Sprintf("<!-- example: %s -->\n\n%s\n\n", name, example)
	})
	for name := range d.examples {
		t.Errorf("the document lacks the example %q", name)
	}
	if want == string(document) {
		return
	}
	if os.Getenv(updateDocument) != "" {
		if err := os.WriteFile(documentPath, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, now := strings.Split(string(document), "\n"), strings.Split(want, "\n")
	for i := range min(len(have), len(now)) {
		if have[i] != now[i] {
			t.Fatalf("%s, line %d, shows\n%s\nOn the wire is\n%s\n%s=1 rewrites the examples.", documentPath, i+1, have[i], now[i], updateDocument)
		}
	}
	t.Fatalf("%s ends too early or too late; %s=1 rewrites the examples", documentPath, updateDocument)
}

// TestFabricRules checks that the files that the document names for a rule name the rule.
func TestFabricRules(t *testing.T) {
	document, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([FPRIH]\d) \|.*$`).FindAllStringSubmatch(string(document), -1)
	link := regexp.MustCompile(`\]\((\.\./[^)]+\.go)\)`)
	count := map[byte]int{}
	for _, row := range rows {
		rule := row[1]
		count[rule[0]]++
		files := link.FindAllStringSubmatch(row[0], -1)
		named := false
		for _, file := range files {
			source, err := os.ReadFile(filepath.Join(filepath.Dir(documentPath), file[1]))
			if err != nil {
				t.Error(err)
				continue
			}
			named = named || regexp.MustCompile(`(?m)//.*\b`+rule+`\b`).Match(source)
		}
		if !named {
			t.Errorf("none of the files that the document names for the rule %s names it: %v", rule, files)
		}
	}
	if want := map[byte]int{'F': 4, 'P': 7, 'R': 4, 'I': 9, 'H': 2}; fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("the document has the rules %v, want %v", count, want)
	}
}

// fabricDocument follows ConfigMaps as the document describes.
type fabricDocument struct {
	t        *testing.T
	table    *scheme.Table
	conn     *bus.Conn
	api      client.Interface
	examples map[string]string
	// bounds are the revisions of the test's changes, in order; the document shows them as 101 and
	// so on.
	bounds []int64
}

func newFabricDocument(t *testing.T) *fabricDocument {
	t.Helper()
	s := harness.Start(t)
	table := scheme.New()
	api, err := client.New(s.Admin(), table)
	if err != nil {
		t.Fatal(err)
	}
	return &fabricDocument{t: t, table: table, conn: s.OnBus("system:kube-controller-manager"), api: api, examples: map[string]string{}}
}

func (d *fabricDocument) follow() {
	t, configmaps := d.t, client.Of[*corev1.ConfigMap](d.api)
	made, err := configmaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "greeting"}, Data: map[string]string{"hello": "world"},
	}, metav1.CreateOptions{})
	d.happened(made, err)

	changes := d.subscribe("gb.watch.core.configmaps.*.default.>")
	progress := d.subscribe("gb.watch.core.configmaps.~progress")
	secrets := d.subscribe("gb.watch.core.secrets.*.default.>")
	if err := d.conn.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Published(t, d.conn, "", "configmaps")
	harness.Published(t, d.conn, "", "secrets")
	ask := &watchv1.Ask{Resource: "configmaps", Namespace: "default", Fresh: true}
	whole := d.ask(ask)
	d.show("ask", ask)
	d.showBytes("ask-hex", ask)
	if whole.GetOutcome() != watchv1.Outcome_OUTCOME_WHOLE || len(whole.GetEntries()) != 1 {
		t.Fatalf("got the whole view %v", whole)
	}
	history, position := whole.GetHistory(), whole.GetRevision()
	cache := map[string]string{whole.GetEntries()[0].GetName(): whole.GetEntries()[0].GetUid()}
	d.show("answer", whole)

	made.Data["hello"] = "again"
	made, err = configmaps.Update(t.Context(), made, metav1.UpdateOptions{})
	d.happened(made, err)
	put := d.next(changes, func(m *watchv1.Message) bool { return m.GetRevision() == d.bounds[1] })
	if put.GetType() != watchv1.Type_TYPE_PUT || put.GetPrevNamespace() > position || put.GetRevision() <= position || !proto.Equal(put.GetHistory(), history) {
		t.Fatalf("the change %v does not follow revision %d", put, position)
	}
	cache[put.GetName()], position = put.GetUid(), put.GetRevision()
	object, err := d.table.DecodeStorage(scheme.For[*corev1.ConfigMap](d.table), put.GetBody())
	if err != nil || object.(*corev1.ConfigMap).Data["hello"] != "again" {
		t.Errorf("the body is %v, %v", object, err)
	}
	d.show("put", put)
	d.showBytes("put-hex", put)

	// Treat the deletion's message as lost: do not read it.
	if err := configmaps.Delete(t.Context(), "default", "greeting", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := d.next(changes, func(m *watchv1.Message) bool { return m.GetType() == watchv1.Type_TYPE_DELETED })
	d.bounds = append(d.bounds, gone.GetRevision())
	passed := d.next(progress, func(m *watchv1.Message) bool { return m.GetPrevAll() >= gone.GetRevision() })
	d.show("progress", passed)
	if passed.GetPrevAll() <= position {
		t.Fatalf("the progress %v reports nothing above %d", passed, position)
	}
	ask = &watchv1.Ask{Resource: "configmaps", Namespace: "default", History: history, Since: new(position), Minimum: passed.GetPrevAll()}
	since := d.ask(ask)
	d.show("ask-since", ask)
	d.show("answer-since", since)
	if since.GetOutcome() != watchv1.Outcome_OUTCOME_CHANGES || since.GetPrev() > position || since.GetRevision() <= position || len(since.GetEntries()) != 1 {
		t.Fatalf("the changes since %d: got %v", position, since)
	}
	if e := since.GetEntries()[0]; !e.GetDeleted() || cache[e.GetName()] != e.GetUid() {
		t.Errorf("got the change %v with the cache %v", e, cache)
	}

	secret, err := client.Of[*corev1.Secret](d.api).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "password"}, StringData: map[string]string{"hello": "nobody"},
	}, metav1.CreateOptions{})
	d.happened(secret, err)
	omitted := d.next(secrets, func(m *watchv1.Message) bool { return m.GetName() == "password" })
	if !omitted.GetOmitted() || len(omitted.GetBody()) != 0 {
		t.Errorf("the message holds a Secret: %v", omitted)
	}
	d.show("omitted", omitted)
	d.history()
}

// history reads the log until it holds the deletion.
func (d *fabricDocument) history() {
	ask := &watchv1.HistoryAsk{Resource: "configmaps", Namespace: "default", Name: "greeting", After: d.bounds[1]}
	d.show("history-ask", ask)
	for deadline := time.Now().Add(harness.Patience); ; {
		page := &watchv1.HistoryPage{}
		d.read(d.request(d.conn.Client().History("", "configmaps"), "gb.history", ask), page)
		var kept []*watchv1.LoggedMessage
		for _, logged := range page.GetMessages() {
			if logged.GetMessage().GetType() == watchv1.Type_TYPE_DELETED {
				kept = append(kept, logged)
			}
		}
		if len(kept) > 0 && page.GetEnd() {
			page.Messages = kept[:1] // without progress messages, whose number varies
			d.show("history-page", page)
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("the log does not hold the deletion: %v", page)
		}
	}
}

func (d *fabricDocument) happened(object metav1.Object, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	var revision int64
	if _, err := fmt.Sscan(object.GetResourceVersion(), &revision); err != nil {
		d.t.Fatal(err)
	}
	d.bounds = append(d.bounds, revision)
}

func (d *fabricDocument) subscribe(subject string) <-chan bus.Message {
	d.t.Helper()
	messages := make(chan bus.Message, 1000)
	sub, err := d.conn.Subscribe(d.t.Context(), subject, func(m bus.Message) { messages <- m })
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(sub.Unsubscribe)
	return messages
}

// next waits for a message.
func (d *fabricDocument) next(messages <-chan bus.Message, wanted func(*watchv1.Message) bool) *watchv1.Message {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), harness.Patience)
	defer cancel()
	for {
		select {
		case raw := <-messages:
			m := &watchv1.Message{}
			d.read(raw.Data, m)
			if want := "gb.watch.core." + m.GetResource() + ".~.default." + m.GetName(); m.GetType() != watchv1.Type_TYPE_PROGRESS && raw.Subject != want {
				d.t.Errorf("got the subject %s, want %s", raw.Subject, want)
			}
			if wanted(m) {
				return m
			}
		case <-ctx.Done():
			d.t.Fatal("no such message arrives")
		}
	}
}

// read parses a message and fails if it holds anything that the document's .proto files do not
// define.
func (d *fabricDocument) read(data []byte, m proto.Message) {
	d.t.Helper()
	if err := proto.Unmarshal(data, m); err != nil {
		d.t.Fatal(err)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || !bytes.Equal(again, data) {
		d.t.Errorf("%x is on the wire, but %v is encoded as %x, %v", data, m, again, err)
	}
}

func (d *fabricDocument) ask(ask *watchv1.Ask) *watchv1.Chunk {
	d.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; {
		chunk := &watchv1.Chunk{}
		d.read(d.request(d.conn.Client().Ask("", "configmaps"), "gb.ask", ask), chunk)
		if chunk.GetOutcome() != watchv1.Outcome_OUTCOME_NOT_YET || time.Now().After(deadline) {
			return chunk
		}
	}
}

// request sends a request where the document says, and returns the first message that comes back.
func (d *fabricDocument) request(subject, root string, m proto.Message) []byte {
	d.t.Helper()
	asker := d.conn.Client()
	if want := root + "." + asker.Inbox + "." + asker.Identity + ".core.configmaps"; subject != want {
		d.t.Errorf("asks go to %s, want %s", subject, want)
	}
	inbox := "_INBOX." + asker.Inbox + ".answers"
	answers := d.subscribe(inbox)
	data, err := proto.Marshal(m)
	if err != nil {
		d.t.Fatal(err)
	}
	for deadline := time.After(harness.Patience); ; {
		if err := d.conn.PublishRequest(d.t.Context(), subject, inbox, data); err != nil {
			d.t.Fatal(err)
		}
		select {
		case answer := <-answers:
			if answer.NoResponders() {
				continue // The apiserver is still starting.
			}
			return answer.Data
		case <-deadline:
			d.t.Fatalf("no response to %v", m)
			return nil
		}
	}
}

// round replaces a revision with the document's: 100 plus the number of changes up to it.
func (d *fabricDocument) round(revision int64) int64 {
	if revision == 0 {
		return 0
	}
	round := int64(100)
	for _, bound := range d.bounds {
		if revision >= bound {
			round++
		}
	}
	return round
}

const (
	documentUID  = "11111111-2222-4333-8444-555555555555"
	documentTime = int64(1_800_000_000_000_000_000)
)

func documentHistory(h *watchv1.History) *watchv1.History {
	if h == nil {
		return nil
	}
	return &watchv1.History{Created: documentTime, Nonce: 42}
}

// body replaces the values within an object that differ from run to run.
func (d *fabricDocument) body(data []byte) []byte {
	d.t.Helper()
	if len(data) == 0 {
		return nil
	}
	kind := scheme.For[*corev1.ConfigMap](d.table)
	object, err := d.table.DecodeStorage(kind, data)
	if err != nil {
		d.t.Fatal(err)
	}
	object.SetUID(documentUID)
	object.SetCreationTimestamp(metav1.Unix(documentTime/int64(time.Second), 0))
	object.SetManagedFields(nil)
	data, err = d.table.EncodeStorage(kind, object)
	if err != nil {
		d.t.Fatal(err)
	}
	return data
}

// rounded is a message as the document shows it.
func (d *fabricDocument) rounded(m proto.Message) proto.Message {
	d.t.Helper()
	m = proto.Clone(m)
	switch m := m.(type) {
	case *watchv1.Ask:
		m.History, m.Minimum = documentHistory(m.GetHistory()), d.round(m.GetMinimum())
		if m.Since != nil {
			m.Since = new(d.round(m.GetSince()))
		}
	case *watchv1.Chunk:
		m.Answer, m.History, m.Prev, m.Revision = 7, documentHistory(m.GetHistory()), d.round(m.GetPrev()), d.round(m.GetRevision())
		for _, e := range m.GetEntries() {
			e.Revision, e.Uid, e.Body = d.round(e.GetRevision()), documentUID, d.body(e.GetBody())
		}
	case *watchv1.Message:
		m.History, m.Revision, m.Cursor = documentHistory(m.GetHistory()), d.round(m.GetRevision()), 100
		m.WindowStart = min(m.GetWindowStart(), 100)
		m.PrevAll, m.PrevNamespace, m.PrevScope = d.round(m.GetPrevAll()), d.round(m.GetPrevNamespace()), d.round(m.GetPrevScope())
		if m.GetUid() != "" {
			m.Uid = documentUID
		}
		m.Body, m.TraceParent = d.body(m.GetBody()), ""
	case *watchv1.HistoryAsk:
		m.After = d.round(m.GetAfter())
	case *watchv1.HistoryPage:
		m.Next, m.Oldest = 43, documentTime
		for _, logged := range m.GetMessages() {
			logged.Time = documentTime
			inner, ok := d.rounded(logged.GetMessage()).(*watchv1.Message)
			if !ok {
				d.t.Fatal("not a message")
			}
			logged.Message = inner
		}
	}
	return m
}

// show renders a message in protobuf's JSON form as an example.
func (d *fabricDocument) show(name string, m proto.Message) {
	d.t.Helper()
	data, err := protojson.Marshal(d.rounded(m))
	if err != nil {
		d.t.Fatal(err)
	}
	var text bytes.Buffer
	// The library varies the spaces of its JSON at random, so that callers do not compare it.
	if err := json.Indent(&text, data, "", "  "); err != nil {
		d.t.Fatal(err)
	}
	d.examples[name] = "```json\n" + text.String() + "\n```"
}

// showBytes renders the bytes as an example.
func (d *fabricDocument) showBytes(name string, m proto.Message) {
	d.t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(d.rounded(m))
	if err != nil {
		d.t.Fatal(err)
	}
	var lines []string
	for len(data) > 0 {
		n := min(32, len(data))
		lines = append(lines, hex.EncodeToString(data[:n]))
		data = data[n:]
	}
	d.examples[name] = "```text\n" + strings.Join(lines, "\n") + "\n```"
}

package arch_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

func TestSleeps(t *testing.T) {
	const main = "func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }\n"
	for _, tt := range []struct {
		name, source string
		// want is the function that sleeps outside bubbles; empty if there is none.
		want string
	}{
		{"in a bubble", `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`, ""},
		{"outside a bubble", `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) {}); time.Sleep(1) }`, "TestA"},
		{"outside functions", `var wait = func() { time.Sleep(1) }`, "?"},
		{"as a value", `func TestA(t *testing.T) { each(time.Sleep) }`, "TestA"},
		{"a function passed to a bubble", `
			func TestA(t *testing.T) { synctest.Test(t, testA) }
			func testA(t *testing.T) { time.Sleep(1) }`, ""},
		{"a function called in bubbles only", `
			func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { a() }) }
			func a() { b() }
			func b() { time.Sleep(1) }`, ""},
		{"a function called outside bubbles, too", `
			func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { a() }) }
			func TestB(t *testing.T) { b() }
			func a() { b() }
			func b() { time.Sleep(1) }`, "b"},
		{"a function that only calls itself", `func a() { a(); time.Sleep(1) }`, "a"},
		{"mutual recursion", `
			func a() { b(); time.Sleep(1) }
			func b() { a() }`, "a"},
		{"a method", `
			func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { p.a() }) }
			func (p *plane) a() { time.Sleep(1) }`, ""},
		{"a method with a name that is called outside", `
			func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { p.a() }); q.a() }
			func (p *plane) a() { time.Sleep(1) }`, "a"},
		{"a function that creates bubbles", `
			func inBubble(t *testing.T, test func(*testing.T)) { synctest.Test(t, func(t *testing.T) { test(t) }) }
			func onBoth(t *testing.T, test func(*testing.T)) { inBubble(t, func(t *testing.T) { test(t) }) }
			func TestA(t *testing.T) { onBoth(t, func(t *testing.T) { time.Sleep(1) }) }`, ""},
		{"a function that creates a bubble besides its argument", `
			func beside(t *testing.T, test func(*testing.T)) { synctest.Test(t, nothing); test(t) }
			func TestA(t *testing.T) { beside(t, func(t *testing.T) { time.Sleep(1) }) }`, "TestA"},
		{"a table", `
			func TestA(t *testing.T) {
				for _, tt := range []struct { do func() } {{func() { time.Sleep(1) }}} {
					synctest.Test(t, func(t *testing.T) { tt.do() })
				}
			}`, ""},
		{"a table outside a bubble", `
			func TestA(t *testing.T) {
				for _, tt := range []struct { do func() } {{do: func() { time.Sleep(1) }}} {
					synctest.Test(t, func(t *testing.T) {})
					tt.do()
				}
			}`, "TestA"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := arch.Check(writeTree(t, map[string]string{
				"libs/a/a_test.go": "package a\nimport \"testing/synctest\"\n" + main + tt.source + "\n",
			}))
			if err != nil {
				t.Fatal(err)
			}
			found = alone(found)
			if tt.want == "" && len(found) != 0 {
				t.Errorf("found %v", found)
			}
			if tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].Why, "sleeps in "+tt.want+",")) {
				t.Errorf("found %v, want one violation that names %s", found, tt.want)
			}
		})
	}
}

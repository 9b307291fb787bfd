package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes in pixels. A renderer chooses the font, so that the widths of letters are estimates, which
// are rather too large.
const (
	unit        = 10.0
	lineHeight  = 17.0
	letter      = 6.9
	boldLetter  = 7.6
	boxMargin   = 6.0
	labelMargin = 5.0
)

// style is for light and dark surroundings. The picture has a background of its own, so that it is
// readable where a page ignores the reader's preference.
const style = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328;text-anchor:middle}
.b{font-weight:600}.l{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}.s{text-anchor:start}.e{text-anchor:end}
.ground{fill:#fff}.box{stroke-width:1.5}.user{fill:#f6f8fa;stroke:#6e7781}.service{fill:#ddf4ff;stroke:#0969da}
.data{fill:#fff8c5;stroke:#9a6700}.part{fill:#fff;stroke:#6e7781;stroke-width:1}.frame{fill:none;stroke:#6e7781;stroke-dasharray:2 3}
.line{fill:none;stroke:#1f2328;stroke-width:1.5}.dash{stroke-dasharray:6 4}.tip{fill:#1f2328}.life{stroke:#6e7781;stroke-dasharray:2 4}
.badge{fill:#1f2328}text.number{fill:#fff;font-size:11px;font-weight:600}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.l{stroke:#0d1117}.ground{fill:#0d1117}.user{fill:#21262d;stroke:#8b949e}
.service{fill:#0c2d6b;stroke:#58a6ff}.data{fill:#3d2c00;stroke:#d29922}.part{fill:#0d1117;stroke:#8b949e}.frame{stroke:#8b949e}
.line{stroke:#e6edf3}.tip{fill:#e6edf3}.life{stroke:#8b949e}.badge{fill:#e6edf3}text.number{fill:#0d1117}}`

type point struct{ x, y float64 }

// shape is one SVG element; sortBy orders shapes that come from a map.
type shape struct {
	sortBy float64
	text   string
}

// picture is a list of SVG elements, the lowest first.
type picture struct {
	width, height float64
	shapes        []shape
}

func (p *picture) add(format string, args ...any) {
	p.shapes = append(p.shapes, shape{text: fmt.Sprintf(format, args...)})
}

// below puts shapes below all others, sorted.
func (p *picture) below(shapes []shape) {
	slices.SortFunc(shapes, func(a, b shape) int { return cmp.Compare(a.sortBy, b.sortBy) })
	p.shapes = append(shapes, p.shapes...)
}

// box draws a statement's box with its texts. It returns an error if they do not fit.
func (p *picture) box(s statement, b box, kind string) error {
	p.add(`<rect class="box %s" x="%g" y="%g" width="%g" height="%g" rx="5"/>`, kind, b.left, b.top, b.width, b.height)
	y := b.top + b.height/2 - lineHeight*float64(len(s.texts)-1)/2 + 4.5
	if kind == "frame" {
		y = b.top + lineHeight
	}
	for i, text := range s.texts {
		width, class := textWidth(text, letter), ""
		if i == 0 && kind != "part" {
			width, class = textWidth(text, boldLetter), ` class="b"`
		}
		if room := b.width - 2*boxMargin; width > room {
			return s.errorf("%q needs about %.0f pixels, and has %.0f", text, width, room)
		}
		p.add(`<text%s x="%g" y="%g">%s</text>`, class, b.left+b.width/2, y, html.EscapeString(text))
		y += lineHeight
	}
	if bottom := y - lineHeight + 4; bottom > b.top+b.height {
		return s.errorf("%d lines are too many for a height of %g pixels", len(s.texts), b.height)
	}
	return nil
}

func textWidth(text string, letter float64) float64 { return float64(len([]rune(text))) * letter }

// arrow draws a line with a tip at its end.
func (p *picture) arrow(line []point, dashed bool) {
	var d strings.Builder
	for i, at := range line {
		fmt.Fprintf(&d, "%c%g %g", "ML"[min(i, 1)], at.x, at.y)
	}
	class := "line"
	if dashed {
		class += " dash"
	}
	p.add(`<path class="%s" d="%s"/>`, class, d.String())
	before, last := line[len(line)-2], line[len(line)-1]
	dx, dy := direction(before, last)
	p.add(`<path class="tip" d="M%g %gL%g %gL%g %gZ"/>`, last.x, last.y,
		last.x-8*dx-4*dy, last.y-8*dy-4*dx, last.x-8*dx+4*dy, last.y-8*dy+4*dx)
}

// direction returns the unit vector from a to b, which lie on a line of the grid.
func direction(a, b point) (dx, dy float64) {
	length := math.Hypot(b.x-a.x, b.y-a.y)
	return (b.x - a.x) / length, (b.y - a.y) / length
}

// label writes texts above the longest section of a line, or to the right of it if it is upright.
func (p *picture) label(line []point, texts []string) {
	var a, b point
	for i := range line[1:] {
		if from, to := line[i], line[i+1]; math.Hypot(to.x-from.x, to.y-from.y) > math.Hypot(b.x-a.x, b.y-a.y) {
			a, b = from, to
		}
	}
	class, x, y := "l", (a.x+b.x)/2, a.y-labelMargin-lineHeight*float64(len(texts)-1)
	if a.x == b.x {
		class, x, y = "l s", a.x+labelMargin, (a.y+b.y)/2+4.5-lineHeight*float64(len(texts)-1)/2
	}
	for i, text := range texts {
		p.add(`<text class="%s" x="%g" y="%g">%s</text>`, class, x, y+lineHeight*float64(i), html.EscapeString(text))
	}
}

// svg returns the picture as a file.
func (p *picture) svg(title string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img">`+"\n",
		p.width, p.height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s\n</style>\n", html.EscapeString(title), style)
	fmt.Fprintf(&b, `<rect class="ground" width="%g" height="%g"/>`+"\n", p.width, p.height)
	for _, s := range p.shapes {
		b.WriteString(s.text + "\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

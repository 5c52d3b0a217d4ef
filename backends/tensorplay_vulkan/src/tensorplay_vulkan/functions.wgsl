// What shaders call: functions of float32 that WGSL does not have, or leaves to the driver how exact they are. After the
// single-precision ones of Stephen Moshier's Cephes library (netlib.org/cephes).

var<private> INFINITY_BITS: u32 = 0x7f800000u;
var<private> NAN_BITS: u32 = 0x7fc00000u;

fn infinity() -> f32 { return bitcast<f32>(INFINITY_BITS); }
fn not_a_number() -> f32 { return bitcast<f32>(NAN_BITS); }

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn negative(x: f32) -> bool { return (bitcast<u32>(x) >> 31u) == 1u; }

fn is_true(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) != 0u; }

fn signed(size: f32, like: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(size) & 0x7fffffffu) | (bitcast<u32>(like) & 0x80000000u));
}

fn scaled(x: f32, k: i32) -> f32 {
  let half = k >> 1u;
  return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(k - half + 127) << 23u);
}

fn exp_reduced(r: f32) -> f32 {
  let p = ((((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r + 4.1665795894e-2) * r
    + 1.6666665459e-1) * r + 5.0000001201e-1;
  return p * r * r + r;
}

fn exp_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 88.7228394) { return infinity(); }
  if (x < -103.97208) { return 0.0; }
  let k = round(x * 1.44269504088896341);
  let r = (x - k * 0.693359375) - k * -2.12194440e-4;
  return scaled(exp_reduced(r) + 1.0, i32(k));
}

fn expm1_(x: f32) -> f32 {
  if (is_nan(x) || abs(x) < 1e-7) { return x; }
  if (x > 17.0) { return exp_(x); }
  if (x < -17.5) { return -1.0; }
  let k = round(x * 1.44269504088896341);
  let r = (x - k * 0.693359375) - k * -2.12194440e-4;
  let power = scaled(1.0, i32(k));
  return power * exp_reduced(r) + (power - 1.0);
}

fn log_near_one(m: f32) -> f32 {
  let z = m * m;
  let p = ((((((((7.0376836292e-2 * m - 1.1514610310e-1) * m + 1.1676998740e-1) * m - 1.2420140846e-1) * m
    + 1.4249322787e-1) * m - 1.6668057665e-1) * m + 2.0000714765e-1) * m - 2.4999993993e-1) * m
    + 3.3333331174e-1) * m * z;
  return p - 0.5 * z;
}

fn log_(x: f32) -> f32 {
  var bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) == 0u) { return -infinity(); }
  if (bits > 0x7f800000u) { return select(not_a_number(), x, is_nan(x)); }
  if (bits == 0x7f800000u) { return x; }
  var e = 0;
  if (bits < 0x00800000u) {
    bits = bitcast<u32>(f32(bits));
    e = -149;
  }
  e += i32(bits >> 23u) - 126;
  var m = bitcast<f32>((bits & 0x007fffffu) | 0x3f000000u);
  if (m < 0.707106781186547524) { e -= 1; m = m + m - 1.0; } else { m = m - 1.0; }
  let k = f32(e);
  return ((log_near_one(m) + k * -2.12194440e-4) + m) + k * 0.693359375;
}

fn log1p_(x: f32) -> f32 {
  if (x > -0.29 && x < 0.41) { return select(log_near_one(x) + x, x, abs(x) < 1e-7); }
  return log_(1.0 + x);
}

fn tanh_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let size = abs(x);
  if (size < 0.625) {
    let z = x * x;
    let p = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z
      - 3.33332819422e-1;
    return select(p * z * x + x, x, size < 1e-4);
  }
  return signed(select(1.0 - 2.0 / (exp_(size + size) + 1.0), 1.0, size > 9.1), x);
}

fn sigmoid_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let e = exp_(-abs(x));
  return select(e, 1.0, x >= 0.0) / (1.0 + e);
}

fn product(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return vec2<u32>((a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u), (other << 16u) | (low & 0xffffu));
}
var<private> TWO_OVER_PI: array<u32, 8> = array<u32, 8>(
  0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0u);

struct Reduced { octant: u32, rest: f32 }

// The method of Payne and Hanek: the bits of x * 2/pi that are left when whole turns are taken away, in 2.62 fixed
// point.

fn reduced_far(size: f32) -> Reduced {
  let bits = bitcast<u32>(size);
  let e = (bits >> 23u) - 126u;
  let mantissa = ((bits & 0x007fffffu) | 0x00800000u) << 8u;
  let i = e >> 5u;
  let shift = e & 31u;
  var high = TWO_OVER_PI[i];
  var middle = TWO_OVER_PI[i + 1u];
  var low = TWO_OVER_PI[i + 2u];
  if (shift > 0u) {
    high = (high << shift) | (middle >> (32u - shift));
    middle = (middle << shift) | (low >> (32u - shift));
    low = (low << shift) | (TWO_OVER_PI[i + 3u] >> (32u - shift));
  }
  let second = product(mantissa, middle);
  let carry = product(mantissa, low).x;
  var p_low = second.y + carry;
  var p_high = mantissa * high + second.x + select(0u, 1u, p_low < carry);
  var quadrant = p_high >> 30u;
  p_high = p_high & 0x3fffffffu;
  let above = (p_high & 0x20000000u) != 0u;
  if (above) {
    quadrant += 1u;
    p_high = 0x3fffffffu - p_high + select(0u, 1u, p_low == 0u);
    p_low = 0u - p_low;
  }
  let fraction = (f32(p_high) + f32(p_low) * 2.3283064365386963e-10) * 9.313225746154785e-10;
  let rest = fraction * 1.5707963267948966;
  return Reduced(2u * quadrant, select(rest, -rest, above));
}

fn reduced(size: f32) -> Reduced {
  if (size > 8192.0) { return reduced_far(size); }
  var j = u32(size * 1.27323954473516);
  j += j & 1u;
  let k = f32(j);
  return Reduced(j, ((size - k * 0.78515625) - k * 2.4187564849853515625e-4) - k * 3.77489497744594108e-8);
}

fn sin_octant(x: f32, shift: u32) -> f32 {
  let size = abs(x);
  if (is_nan(x) || bitcast<u32>(size) == 0x7f800000u) { return not_a_number(); }
  let found = reduced(size);
  let j = found.octant;
  let r = found.rest;
  let z = r * r;
  let octant = (j + shift) & 7u;
  var y = 0.0;
  if ((octant & 2u) == 0u) {
    y = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r;
  } else {
    y = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
  }
  let flip = (octant >= 4u) != (shift == 0u && negative(x));
  return select(y, -y, flip);
}

fn sin_(x: f32) -> f32 { return select(sin_octant(x, 0u), x, abs(x) < 1e-4); }
fn cos_(x: f32) -> f32 { return sin_octant(x, 2u); }

fn sqrt_(x: f32) -> f32 { return select(sqrt(x), x, is_nan(x)); }

fn max_(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(a, b, b > a);
}

fn min_(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(a, b, b < a);
}

fn eq_(a: f32, b: f32) -> bool { return a == b && !is_nan(a) && !is_nan(b); }
fn lt_(a: f32, b: f32) -> bool { return a < b && !is_nan(a) && !is_nan(b); }

fn le_(a: f32, b: f32) -> bool { return a <= b && !is_nan(a) && !is_nan(b); }

fn sgn_(x: f32) -> f32 {
  if (is_nan(x) || !is_true(x)) { return x; }
  return select(1.0, -1.0, negative(x));
}

fn pow_by_squares(x: f32, n: u32) -> f32 {
  var result = 1.0;
  var power = x;
  var left = n;
  while (left > 0u) {
    if ((left & 1u) == 1u) { result *= power; }
    left = left >> 1u;
    if (left > 0u) { power *= power; }
  }
  return result;
}

// A power through the logarithm as a sum of two numbers, so that its product with the exponent keeps its digits.
fn pow_positive(x: f32, y: f32) -> f32 {
  var bits = bitcast<u32>(x);
  var e = -127;
  if (bits < 0x00800000u) { bits = bitcast<u32>(f32(bits)); e -= 149; }
  e += i32(bits >> 23u);
  var m = bitcast<f32>((bits & 0x007fffffu) | 0x3f800000u);
  if (m > 1.41421356) { m = m * 0.5; e += 1; }
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), with the rest of the division as s_low.
  let top = m - 1.0;
  let bottom = m + 1.0;
  let s = top / bottom;
  let s_high = bitcast<f32>(bitcast<u32>(s) & 0xfffff000u);
  let bottom_high = bitcast<f32>(bitcast<u32>(bottom) & 0xfffff000u);
  let bottom_low = m - (bottom_high - 1.0);
  let s_low = ((top - s_high * bottom_high) - s_high * bottom_low) / bottom;
  let z = s * s;
  let tail = s * z * (0.66666667 + z * (0.4 + z * (0.28571429 + z * (0.22222222 + z * 0.18181818))));
  let k = f32(e);
  // ln x = k ln 2 + 2 s + tail as high + low, with high on a grid on which the sum is exact.
  let grid = select(round(s_high * 8192.0) / 4096.0, 2.0 * s_high, e == 0);
  let high = k * 0.693359375 + grid;
  let low = k * -2.12194440e-4 + (2.0 * s_high - grid) + 2.0 * s_low + tail;
  let ln_high = bitcast<f32>(bitcast<u32>(high + low) & 0xfffff000u);
  let ln_low = (high - ln_high) + low;
  let y_high = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
  let y_low = y - y_high;
  let product = ln_high * y_high;
  let rest = ln_high * y_low + ln_low * y;
  if (product + rest > 88.7228394) { return infinity(); }
  if (product + rest < -103.97208) { return 0.0; }
  let n = round((product + rest) * 1.44269504088896341);
  let r = ((product - n * 0.693359375) - n * -2.12194440e-4) + rest;
  return scaled(exp_reduced(r) + 1.0, i32(n));
}

fn pow_(x: f32, y: f32) -> f32 {
  if (!is_true(y)) { return 1.0; }
  if (x == 1.0 && !is_nan(x)) { return 1.0; }
  if (is_nan(x)) { return x; }
  if (is_nan(y)) { return y; }
  let size = abs(x);
  let y_size = abs(y);
  let whole = y_size >= 8388608.0 || y_size == f32(u32(y_size));
  let odd = whole && y_size < 16777216.0 && (u32(y_size) & 1u) == 1u;
  let flip = odd && negative(x);
  let y_infinite = (bitcast<u32>(y) & 0x7fffffffu) == 0x7f800000u;
  let x_infinite = (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
  var result = 0.0;
  if (y_infinite) {
    if (size == 1.0) { return 1.0; }
    result = select(0.0, infinity(), (size > 1.0) != negative(y));
  } else if (!is_true(x) || x_infinite) {
    result = select(0.0, infinity(), x_infinite != negative(y));
  } else if (negative(x) && !whole) {
    return not_a_number();
  } else if (size == 1.0) {
    result = 1.0;
  } else if (whole && y_size <= 4.0) {
    let power = pow_by_squares(size, u32(y_size));
    result = select(power, 1.0 / power, negative(y));
  } else {
    result = pow_positive(size, y);
  }
  return select(result, -result, flip);
}

fn pow_int(x: i32, y: i32) -> i32 {
  if (y < 0) { return select(select(0, select(1, -1, (y & 1) != 0), x == -1), 1, x == 1); }
  var result = 1;
  var power = x;
  var left = y;
  while (left > 0) {
    if ((left & 1) == 1) { result *= power; }
    left = left >> 1u;
    power *= power;
  }
  return result;
}

fn to_int(x: f32) -> i32 {
  let beyond = is_nan(x) || x >= 2147483648.0 || x < -2147483648.0;
  return select(i32(x), -2147483647 - 1, beyond);
}

// ---------------------------------------------------------------------------------------------- rounding, remainders

fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u; }

fn floor_(x: f32) -> f32 { return select(x, floor(x), is_finite(x)); }
fn ceil_(x: f32) -> f32 { return select(x, ceil(x), is_finite(x)); }
fn trunc_(x: f32) -> f32 { return select(x, trunc(x), is_finite(x)); }
fn round_(x: f32) -> f32 { return select(x, round(x), is_finite(x)); }

// The rest is taken away piece by piece, each the divisor times a power of 2: every difference is exact.
fn fmod_(x: f32, y: f32) -> f32 {
  if (is_nan(x) || is_nan(y) || is_inf(x) || !is_true(y)) { return not_a_number(); }
  if (is_inf(y)) { return x; }
  let size = abs(y);
  var rest = abs(x);
  var times = 0;
  while (rest >= size && times < 512) {
    let gap = i32(bitcast<u32>(rest) >> 23u) - i32(bitcast<u32>(size) >> 23u);
    var piece = select(scaled(size, gap), size, gap <= 0);
    if (piece > rest) { piece = piece * 0.5; }
    if (piece < size) { piece = size; }
    rest = rest - piece;
    times += 1;
  }
  return signed(rest, x);
}

fn remainder_(x: f32, y: f32) -> f32 {
  let rest = fmod_(x, y);
  if (is_nan(rest)) { return rest; }
  if (!is_true(rest)) { return signed(0.0, y); }
  return select(rest, rest + y, negative(rest) != negative(y));
}

fn floor_divide_(x: f32, y: f32) -> f32 {
  if (is_nan(x) || is_nan(y) || is_inf(x)) { return select(not_a_number(), x / y, is_inf(x) && !is_true(y)); }
  if (!is_true(y)) {
    if (!is_true(x)) { return not_a_number(); }
    return select(infinity(), -infinity(), negative(x) != negative(y));
  }
  let opposite = negative(x) != negative(y);
  if (is_inf(y)) { return select(0.0, -1.0, opposite && is_true(x)); }
  let rest = fmod_(x, y);
  var quotient = round((x - rest) / y);
  if (is_true(rest) && opposite) { quotient -= 1.0; }
  return quotient;
}

fn remainder_int(x: i32, y: i32) -> i32 {
  if (y == 0 || y == -1) { return 0; }
  let rest = x % y;
  return select(rest, rest + y, rest != 0 && ((rest < 0) != (y < 0)));
}

fn fmod_int(x: i32, y: i32) -> i32 {
  if (y == 0 || y == -1) { return 0; }
  return x % y;
}

fn floor_divide_int(x: i32, y: i32) -> i32 {
  if (y == 0) { return 0; }
  if (y == -1) { return 0 - x; }
  let rest = x % y;
  return select(x / y, x / y - 1, rest != 0 && ((rest < 0) != (y < 0)));
}

fn shift_left(x: i32, y: i32) -> i32 { return select(0, x << (u32(y) & 31u), y >= 0 && y < 32); }
fn shift_right(x: i32, y: i32) -> i32 { return x >> select(31u, u32(y), y >= 0 && y < 32); }

// ---------------------------------------------------------------------------------- trigonometry and its inverses

fn tan_(x: f32) -> f32 { return select(sin_(x) / cos_(x), x, abs(x) < 1e-4); }

fn sinh_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let size = abs(x);
  if (size < 1e-4) { return x; }
  if (size > 40.0) {
    let root = exp_(0.5 * size);
    return signed(0.5 * root * root, x);
  }
  let e = expm1_(size);
  return signed(0.5 * (e + e / (e + 1.0)), x);
}

fn cosh_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let size = abs(x);
  if (size > 40.0) {
    let root = exp_(0.5 * size);
    return 0.5 * root * root;
  }
  let e = exp_(size);
  return 0.5 * (e + 1.0 / e);
}

fn asin_part(s: f32, z: f32) -> f32 {
  return ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z + 7.4953002686e-2) * z
    + 1.6666752422e-1) * z * s + s;
}

fn asin_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let size = abs(x);
  if (size > 1.0) { return not_a_number(); }
  if (size < 1e-4) { return x; }
  if (size > 0.5) {
    let z = 0.5 * (1.0 - size);
    return signed(1.5707963267948966 - 2.0 * asin_part(sqrt(z), z), x);
  }
  return asin_part(x, x * x);
}

fn acos_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (abs(x) > 1.0) { return not_a_number(); }
  if (x > 0.5) {
    let z = 0.5 * (1.0 - x);
    return 2.0 * asin_part(sqrt(z), z);
  }
  if (x < -0.5) {
    let z = 0.5 * (1.0 + x);
    return 3.1415926535897932 - 2.0 * asin_part(sqrt(z), z);
  }
  return 1.5707963267948966 - asin_part(x, x * x);
}

fn atan_size(size: f32) -> f32 {
  var y = 0.0;
  var z = size;
  if (size > 2.414213562373095) { y = 1.5707963267948966; z = -1.0 / size; }
  else if (size > 0.4142135623730950) { y = 0.7853981633974483; z = (size - 1.0) / (size + 1.0); }
  let w = z * z;
  return y + ((((8.05374449538e-2 * w - 1.38776856032e-1) * w + 1.99777106478e-1) * w - 3.33329491539e-1) * w * z + z);
}

fn atan_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  return signed(atan_size(abs(x)), x);
}

fn atan2_(y: f32, x: f32) -> f32 {
  if (is_nan(x) || is_nan(y)) { return not_a_number(); }
  var angle = 0.0;
  if (is_inf(x) && is_inf(y)) { angle = 0.7853981633974483; }
  else if (!is_true(y)) { angle = 0.0; }
  else if (!is_true(x) || is_inf(y)) { angle = 1.5707963267948966; }
  else if (is_inf(x)) { angle = 0.0; }
  else { angle = atan_size(abs(y) / abs(x)); }
  return signed(select(angle, 3.1415926535897932 - angle, negative(x)), y);
}

fn hypot_(x: f32, y: f32) -> f32 {
  if (is_inf(x) || is_inf(y)) { return infinity(); }
  if (is_nan(x) || is_nan(y)) { return not_a_number(); }
  let large = max(abs(x), abs(y));
  let small = min(abs(x), abs(y));
  if (large == 0.0) { return 0.0; }
  let ratio = small / large;
  return large * sqrt(1.0 + ratio * ratio);
}

fn asinh_(x: f32) -> f32 {
  if (!is_finite(x)) { return x; }
  let size = abs(x);
  if (size < 1e-4) { return x; }
  if (size > 1e9) { return signed(log_(size) + 0.6931471805599453, x); }
  return signed(log1p_(size + size * size / (1.0 + sqrt(size * size + 1.0))), x);
}

fn acosh_(x: f32) -> f32 {
  if (is_nan(x) || x < 1.0) { return select(not_a_number(), x, is_nan(x)); }
  if (x > 1e9) { return log_(x) + 0.6931471805599453; }
  let above = x - 1.0;
  return log1p_(above + sqrt(2.0 * above + above * above));
}

fn atanh_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let size = abs(x);
  if (size > 1.0) { return not_a_number(); }
  if (size < 1e-4) { return x; }
  if (size == 1.0) { return signed(infinity(), x); }
  return signed(0.5 * log1p_(2.0 * size / (1.0 - size)), x);
}

fn exp2_(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x >= 128.0) { return infinity(); }
  if (x < -150.0) { return 0.0; }
  let k = round(x);
  return scaled(exp_reduced((x - k) * 0.6931471805599453) + 1.0, i32(k));
}

fn log2_(x: f32) -> f32 {
  let y = log_(x);
  return select(y, y * 1.4426950408889634, is_finite(y));
}

fn log10_(x: f32) -> f32 {
  let y = log_(x);
  return select(y, y * 0.4342944819032518, is_finite(y));
}

fn logaddexp_(a: f32, b: f32) -> f32 {
  if (is_nan(a) || is_nan(b)) { return not_a_number(); }
  if (a == b) { return select(a + 0.6931471805599453, a, is_inf(a)); }
  return max(a, b) + log1p_(exp_(-abs(a - b)));
}
